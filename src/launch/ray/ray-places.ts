// Places of a job that Ray gives: starts horovod_ray.py, whose actors are the agents, and waits for them. What Ray says meanwhile goes
// into errors: too few resources, a cluster that cannot be reached, actors and nodes that were lost.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../errors.ts';
import { inSeconds, waitFor } from '../../net/wait.ts';
import { packageRoot } from '../../settings/package.ts';
import { nodeOf } from '../job-request.ts';
import { AgentPlaces, type PlaceManager, soon } from '../places/agent-places.ts';
import type { PlaceGiver, PlacesWanted } from '../places/place-giver.ts';
import type { RayEvent, RayOrder } from './ray-messages.ts';

/** What is asked of Ray. */
export interface RayShape {
  readonly count: number;
  /** Undefined: wherever there is room, close together. */
  readonly perHost: number | undefined;
  readonly cpusPerWorker: number;
  readonly gpusPerWorker: number;
  readonly elastic: { readonly max: number } | undefined;
}

/** horovod_ray.py. */
export interface RayLink {
  /** Called once. `onEnd`: it has ended, as `how` says. */
  begin(order: RayOrder, onEvent: (event: RayEvent) => void, onEnd: (how: string) => void): void;
  /** Resolves when it has ended, or has been ended. `isEnding`: its actors have ended, so it is about to do so by itself. */
  close(isEnding: boolean): Promise<void>;
}

export interface RayPlacesOptions {
  readonly shape: RayShape;
  readonly address: string | undefined;
  readonly init: Readonly<Record<string, unknown>>;
  readonly startTimeoutMs: number;
  readonly connect: (explain: (text: string) => void) => RayLink;
}

/** How long Ray may take to find out why it has lost an actor. */
const reasonMs = 5000;

export function rayPlaces(options: RayPlacesOptions): PlaceGiver {
  return async (wanted) => {
    const { settings, say, signal, isVerbose } = wanted;
    const { shape, startTimeoutMs } = options;
    const startedAt = performance.now();
    const left = () => Math.max(startTimeoutMs - (performance.now() - startedAt), 1);
    const explain = isVerbose ? say : () => undefined;
    const job = new RayJob(options, wanted, explain);
    const places = await AgentPlaces.open({ manager: job, settings, say, explain });
    try {
      job.begin(places);
      const { nodes, cpus, gpus } = await job.cluster(left(), signal);
      explain(`Ray has ${nodes} nodes with ${cpus} CPUs and ${gpus} GPUs`);
      await places.gather({ count: wanted.processes ?? shape.count, timeoutMs: left(), signal });
      job.hasStarted();
      return places;
    } catch (error) {
      await places.close();
      throw error;
    }
  };
}

type Cluster = RayEvent & { readonly event: 'cluster' };

class RayJob implements PlaceManager {
  readonly name = 'Ray';
  readonly #options: RayPlacesOptions;
  readonly #wanted: PlacesWanted;
  readonly #link: RayLink;
  #cluster: Cluster | undefined;
  #onCluster: (cluster: Cluster) => void = () => undefined;
  #onFailure: (error: HorovodError) => void = () => undefined;
  #failure: HorovodError | undefined;
  #isRunning = false;
  #reason: string | undefined;
  #onReason: (reason: string) => void = () => undefined;
  readonly #reasonCame = new Promise<string>((resolve) => {
    this.#onReason = resolve;
  });

  constructor(options: RayPlacesOptions, wanted: PlacesWanted, explain: (text: string) => void) {
    this.#options = options;
    this.#wanted = wanted;
    this.#link = options.connect(explain);
  }

  begin(places: AgentPlaces): void {
    const fail = (text: string) => {
      this.#failure ??= new HorovodError('ERR_HVD_HOST', text);
      this.#onFailure(this.#failure);
      places.fail(this.#failure);
    };
    this.#link.begin(
      this.#order(places),
      (event) => this.#hear(event, fail),
      (how) => {
        this.#onReason(how);
        fail(`ray: there are no places: ${how}.`);
      },
    );
  }

  /** Ray is there. */
  cluster(timeoutMs: number, signal: AbortSignal | undefined): Promise<Cluster> {
    return waitFor<Cluster>(
      (resolve, reject) => {
        this.#onCluster = resolve;
        this.#onFailure = reject;
        if (this.#cluster !== undefined) resolve(this.#cluster);
        if (this.#failure !== undefined) reject(this.#failure);
      },
      'for Ray',
      { timeoutMs, signal },
      () =>
        new HorovodError(
          'ERR_HVD_TIMEOUT',
          `ray: Ray has not answered within ${inSeconds(timeoutMs)} (startTimeoutMs). Is its address right, and does it run?`,
        ),
    );
  }

  /** All actors are there. */
  hasStarted(): void {
    this.#isRunning = true;
  }

  describeMissing(): string | undefined {
    if (this.#cluster === undefined) return undefined;
    return `${describeShortage(this.#options.shape, this.#cluster)} startTimeoutMs is the limit.`;
  }

  async explainLoss(): Promise<string | undefined> {
    const reason = this.#reason ?? (await soon(this.#reasonCame, reasonMs));
    if (reason === undefined) return undefined;
    const text = `Ray says: ${reason.replace(/\.$/, '')}.`;
    return /memory|OOM/i.test(reason) ? `${text}\n${memoryAdvice}` : text;
  }

  close(): Promise<void> {
    return this.#link.close(this.#isRunning && this.#options.shape.elastic === undefined);
  }

  #hear(event: RayEvent, fail: (text: string) => void): void {
    switch (event.event) {
      case 'cluster': {
        this.#cluster = event;
        const { shape } = this.#options;
        const shortage = event.isOwn && shape.elastic === undefined ? shortageOf(shape, event) : undefined;
        if (shortage !== undefined) fail(`ray: too few resources. ${describeShortage(shape, event)}`);
        else this.#onCluster(event);
        return;
      }
      case 'lost':
        this.#reason = event.reason;
        this.#onReason(event.reason);
        return;
      case 'failed':
        this.#reason = event.reason;
        this.#onReason(event.reason);
        fail(`ray: ${event.reason.replace(/\.$/, '')}.`);
        return;
      default:
        event satisfies never;
    }
  }

  #order(places: AgentPlaces): RayOrder {
    const { shape, address, init } = this.#options;
    const { addresses, secret, jobId, timeoutMs } = places.dialOrder(0, 0);
    return {
      addresses,
      secret,
      jobId,
      timeoutMs,
      count: shape.elastic?.max ?? shape.count,
      isElastic: shape.elastic !== undefined,
      strategy: shape.perHost === undefined ? 'PACK' : 'STRICT_SPREAD',
      placesPerBundle: shape.perHost ?? 1,
      cpusPerWorker: shape.cpusPerWorker,
      gpusPerWorker: shape.gpusPerWorker,
      address: address ?? null,
      local: init,
      node: nodeOf(this.#wanted).execPath,
      agents: [
        fileURLToPath(new URL('../agent/main.js', import.meta.url)),
        join(packageRoot(), 'dist/launch/agent/main.js'),
        join(process.cwd(), 'node_modules/horovod/dist/launch/agent/main.js'),
      ],
      directory: process.cwd(),
      isVerbose: this.#wanted.isVerbose,
    };
  }
}

/** Whether the cluster can never hold the job as it is now. */
export function shortageOf(shape: RayShape, { perNode }: Pick<Cluster, 'perNode'>): string | undefined {
  const { count, perHost = 1, cpusPerWorker, gpusPerWorker } = shape;
  const bundles = perNode.map(([cpus, gpus]) => {
    const fits = (there: number, each: number) =>
      each === 0 ? Number.POSITIVE_INFINITY : Math.floor(there / (each * perHost) + 1e-9);
    const room = Math.min(fits(cpus, cpusPerWorker), fits(gpus, gpusPerWorker));
    return shape.perHost === undefined ? room : Math.min(room, 1);
  });
  const room = bundles.reduce((sum, each) => sum + each, 0) * perHost;
  return room >= count ? undefined : `there is room for ${room}`;
}

export function describeShortage(shape: RayShape, cluster: Pick<Cluster, 'perNode' | 'nodes'>): string {
  const { count, perHost, cpusPerWorker, gpusPerWorker } = shape;
  const each = `${amount(cpusPerWorker, 'CPU')}${gpusPerWorker > 0 ? ` and ${amount(gpusPerWorker, 'GPU')}` : ''}`;
  const where = perHost === undefined ? '' : `, ${perHost} on each of ${count / perHost} nodes`;
  const nodes = cluster.perNode.map(([cpus, gpus]) => `${amount(cpus, 'CPU')}, ${amount(gpus, 'GPU')}`);
  const has = `Ray has ${amount(cluster.nodes, 'node')} (${[...new Set(nodes)].join('; ')})`;
  const shortage = shortageOf(shape, cluster);
  return shortage === undefined
    ? `${has}, whose resources other jobs may be using. See the page of Ray, or run \`ray status\`.`
    : `The job needs ${amount(count, 'place')} of ${each}${where}, and ${has}: ${shortage}. Start fewer workers, lower cpusPerWorker or gpusPerWorker, or add nodes.`;
}

function amount(number: number, unit: string): string {
  return `${number} ${unit}${number === 1 ? '' : 's'}`;
}

const memoryAdvice =
  'Ray ends actors when a node runs out of memory. All ranks of a node share it: start fewer of them on each node (raise cpusPerWorker), or ' +
  'reserve less for the object store of Ray, which ranks do not use.';
