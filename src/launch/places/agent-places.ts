// The places that a cluster manager (Spark, Ray) has given to a job. The cluster manager starts `node dist/launch/agent/main.js dial` in
// each of them and writes a line of JSON (`DialOrder`, see dialOrder()) to its stdin; the agents dial back and prove that they know the
// secret of the job. From then on the job is one of horovodrun: output, failure report, signals and cleaning up.
//
//   const places = await AgentPlaces.open({ settings, say, manager });   // listens
//   …start the tasks with places.dialOrder(place, attempt)…
//   await places.gather({ count, timeoutMs, signal });                   // waits for the agents
//   const launch = { …, places, plan: planPlaces(count, places) };       // or an elastic launch
//   const job = await Job.start(jobRequest(launch));                     // closes the places when it is over
//
// A place is a number below `maxPlaces`. While its agent is there, another one of the same number is turned away; after that, a new
// attempt takes its place (only elastic jobs make use of that). Ranks are grouped by machine (machines.ts).

import { HorovodError } from '../../errors.ts';
import { withoutLoopback } from '../../net/addresses.ts';
import type { Identity } from '../../net/handshake.ts';
import { type Incoming, Listener } from '../../net/listener.ts';
import { inSeconds, waitFor } from '../../net/wait.ts';
import { packageVersion } from '../../settings/package.ts';
import type { Settings } from '../../settings/table.ts';
import { AgentConnection } from '../agent/agent-connection.ts';
import { agentsNumber, type DialOrder } from '../agent/dial-order.ts';
import { prepareOrder } from '../agent/prepare-order.ts';
import { protocolVersion, type SentProgram } from '../agent/protocol.ts';
import { RemoteRanks } from '../agent/remote-ranks.ts';
import { newIdentity } from '../job-parts/foundation.ts';
import { within } from '../job-parts/within.ts';
import type { GivenPlaces } from '../job-request.ts';
import type { HostsRequest } from '../open-hosts.ts';
import type { HostRanks } from '../ranks/host-ranks.ts';
import { groupByMachine, type Machine } from './machines.ts';
import { PlaceRanks, type UsedPlace } from './place-ranks.ts';
import { SocketChannel } from './socket-channel.ts';

/** Who has given the places. */
export interface PlaceManager {
  /** For texts: 'Spark'. */
  readonly name: string;
  /** What it knows about places that are missing, and what to do: for the error of gather(). */
  describeMissing?(): string | undefined;
  /** What it says about places that were lost, for the failure report. It may take a moment until it knows. */
  explainLoss(): Promise<string | undefined>;
  /** All agents have been told to end. Resolves when nothing of it is left. */
  close(): Promise<void>;
}

export interface AgentPlacesOptions {
  readonly manager: PlaceManager;
  readonly settings: Pick<Settings, 'startTimeoutMs' | 'peerTimeoutMs' | 'networkInterfaces'>;
  readonly say: (text: string) => void;
  readonly explain: (text: string) => void;
  /** Default: as many as there may be. */
  readonly maxPlaces?: number | undefined;
}

export interface GatherOptions {
  /** So many agents are waited for. */
  readonly count: number;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

interface Place extends Omit<UsedPlace, 'ranks'> {
  readonly number: number;
  readonly agent: AgentConnection;
  /** Since it is used. */
  ranks: RemoteRanks | undefined;
}

export class AgentPlaces implements GivenPlaces {
  readonly identity: Identity = newIdentity();
  /** The program of the ranks, if it goes to the places with the first order. */
  sent: SentProgram | undefined;
  readonly #options: AgentPlacesOptions;
  /** Of agents that are there, or whose connection has just been accepted. */
  readonly #taken = new Set<number>();
  readonly #places = new Map<number, Place>();
  readonly #names = new Map<string, string>();
  #listener: Listener | undefined;
  #onChange: () => void = () => undefined;
  #fail: (error: HorovodError) => void = () => undefined;
  #failure: HorovodError | undefined;
  #closed: Promise<void> | undefined;

  private constructor(options: AgentPlacesOptions) {
    this.#options = options;
  }

  /** Listens for agents. */
  static async open(options: AgentPlacesOptions): Promise<AgentPlaces> {
    const places = new AgentPlaces(options);
    const { maxPlaces = Number.POSITIVE_INFINITY, settings } = options;
    try {
      places.#listener = await Listener.open({
        ...places.identity,
        purpose: 'agents',
        number: agentsNumber,
        networkInterfaces: settings.networkInterfaces,
        accepts: ({ from }) => (from >= maxPlaces ? 'no' : places.#taken.has(from) ? 'taken' : 'yes'),
        onIncoming: (incoming) => void places.#arrive(incoming),
      });
    } catch (error) {
      if (HorovodError.is(error)) throw error;
      const text = `cannot listen for the agents of ${options.manager.name}: ${(error as Error).message}.`;
      throw new HorovodError('ERR_HVD_RENDEZVOUS', text, { cause: error });
    }
    return places;
  }

  /** The line for the stdin of an agent. It has the secret of the job. */
  dialOrder(place: number, attempt: number, directory?: string): DialOrder {
    const { secret, jobId } = this.identity;
    return {
      addresses: this.#addresses,
      secret: secret.revealForEnvironment(),
      jobId,
      place,
      attempt,
      timeoutMs: this.#options.settings.startTimeoutMs,
      directory,
    };
  }

  /** Resolves when `count` agents are there. Rejects with ERR_HVD_HOST, ERR_HVD_ABORTED, or what fail() was given. */
  async gather({ count, timeoutMs, signal }: GatherOptions): Promise<void> {
    await waitFor<void>(
      (resolve, reject) => {
        this.#fail = reject;
        const look = () => (this.#failure === undefined ? undefined : reject(this.#failure));
        this.#onChange = () => {
          if (this.#places.size >= count) resolve();
        };
        look();
        this.#onChange();
      },
      `for ${this.#options.manager.name}`,
      { timeoutMs, signal },
      () => this.#missing(count, timeoutMs),
    ).finally(() => {
      this.#onChange = () => undefined;
      this.#fail = () => undefined;
    });
  }

  /** There will be no places, or not enough: gather() rejects. */
  fail(error: HorovodError): void {
    this.#failure ??= error;
    this.#fail(error);
  }

  get size(): number {
    return this.#places.size;
  }

  get hosts(): readonly { readonly name: string; readonly slots: number }[] {
    return this.#machines.map(({ name, places }) => ({ name, slots: places.length }));
  }

  onChange(callback: () => void): void {
    this.#onChange = callback;
  }

  open(request: HostsRequest, host: string, slotCount: number): HostRanks {
    const used = () => {
      const numbers = this.#machines.find(({ name }) => name === host)?.places ?? [];
      return numbers.map((number) => this.#use(this.#places.get(number) as Place, request, host, slotCount));
    };
    // They hear from now on.
    used();
    return new PlaceRanks(host, used);
  }

  explainLoss(): Promise<string | undefined> {
    return this.#options.manager.explainLoss();
  }

  /** Twice is fine. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#onChange = () => undefined;
    await Promise.all([...this.#places.values()].map(({ agent }) => agent.close()));
    await Promise.all([this.#listener?.close(), this.#options.manager.close()]);
  }

  get #machines(): Machine[] {
    const facts = [...this.#places.values()].map(({ number, agent: { hello } }) => ({
      place: number,
      machine: hello.machine,
      hostname: hello.hostname,
    }));
    return groupByMachine(facts, this.#names);
  }

  /** Those of this machine last: elsewhere they may be somebody else's. */
  get #addresses(): readonly string[] {
    const all = this.#listener?.addresses ?? [];
    const outer = withoutLoopback(all);
    return [...outer, ...all.filter((address) => !outer.includes(address))];
  }

  #use(place: Place, request: HostsRequest, host: string, slotCount: number): UsedPlace {
    if (place.ranks === undefined) {
      const { agent } = place;
      agent.host = host;
      const { say, explain, watch } = request;
      // The GPUs of a place are in the environment of its agent, and its own environment is that of its ranks.
      const order = {
        ...prepareOrder(request, agent, slotCount),
        forwarded: {},
        pinGpus: false,
        sent: this.sent,
      };
      place.ranks = new RemoteRanks(agent, {
        order,
        say,
        explain,
        watch,
        onLeaving: () => this.#forget(place),
        onLost: () => this.#forget(place),
      });
    }
    return place as UsedPlace;
  }

  async #arrive(incoming: Incoming): Promise<void> {
    const number = incoming.claim.from;
    const { settings, explain, manager } = this.#options;
    this.#taken.add(number);
    const channel = new SocketChannel(incoming.accept());
    const agent = await AgentConnection.open({
      host: `place ${number}`,
      channel,
      startTimeoutMs: settings.startTimeoutMs,
      silenceMs: settings.peerTimeoutMs,
    });
    if (!(agent instanceof AgentConnection)) {
      channel.kill();
      this.#taken.delete(number);
      return;
    }
    const { version, protocol, hostname, pid, node, directory } = agent.hello;
    if (version !== packageVersion() || protocol !== protocolVersion) {
      const text =
        `${manager.name} runs horovod ${version} on ${hostname}, and this is ${packageVersion()}. ` +
        'Install the same version everywhere.';
      this.fail(new HorovodError('ERR_HVD_HOST', text));
      await agent.close();
      return;
    }
    explain(
      `agent in place ${number} on ${hostname} (pid ${pid}, Node ${node}), which runs ranks in ${directory}`,
    );
    const place: Place = { number, agent, ranks: undefined, isTaken: false };
    this.#places.set(number, place);
    // Until it is used; then its ranks hear.
    agent.listen({ onReport: () => undefined, onLost: () => this.#forget(place) });
    this.#onChange();
  }

  #forget(place: Place): void {
    if (this.#places.get(place.number) !== place) return;
    this.#places.delete(place.number);
    this.#taken.delete(place.number);
    this.#onChange();
  }

  #missing(count: number, timeoutMs: number): HorovodError {
    const { manager } = this.#options;
    const seen = this.#places.size;
    const said = manager.describeMissing?.() ?? 'To wait longer, use --start-timeout.';
    return new HorovodError(
      'ERR_HVD_HOST',
      `${manager.name} has started ${seen} of ${count} places within ${inSeconds(timeoutMs)}. ${said}`,
    );
  }
}

/** For managers: waits for a word of theirs, but not for long. */
export async function soon<T>(word: Promise<T>, ms: number): Promise<T | undefined> {
  let value: T | undefined;
  await within(
    word.then((said) => {
      value = said;
    }),
    ms,
  );
  return value;
}
