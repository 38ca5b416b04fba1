// What the launcher and python/ray/horovod_ray.py say to each other: one order, in the environment, and events, each a line of JSON
// behind a prefix on stdout.

import { hasFields, isCount, isText, parseObject } from '../../net/frames.ts';

export interface RayOrder {
  /** Of the launcher, for the agents. */
  readonly addresses: readonly string[];
  readonly secret: string;
  readonly jobId: string;
  readonly timeoutMs: number;
  /** Number of places. */
  readonly count: number;
  readonly isElastic: boolean;
  /** Of a placement group: 'PACK' or 'STRICT_SPREAD', and how many places are in each of its bundles. */
  readonly strategy: string;
  readonly placesPerBundle: number;
  readonly cpusPerWorker: number;
  readonly gpusPerWorker: number;
  /** Of the cluster; null: Ray's own choice, which may be a new one on this machine. */
  readonly address: string | null;
  /** More arguments of ray.init(), for a new cluster on this machine. */
  readonly local: Readonly<Record<string, unknown>>;
  /** Possible paths on the nodes. */
  readonly node: string;
  readonly agents: readonly string[];
  readonly directory: string | null;
  readonly isVerbose: boolean;
}

export type RayEvent =
  | {
      readonly event: 'cluster';
      readonly nodes: number;
      readonly cpus: number;
      readonly gpus: number;
      /** CPUs and GPUs of each node. */
      readonly perNode: readonly (readonly [cpus: number, gpus: number])[];
      /** It was started for this job, and does not grow. */
      readonly isOwn: boolean;
    }
  /** A place of an elastic job is lost; Ray starts it again. */
  | { readonly event: 'lost'; readonly place: number; readonly reason: string }
  /** There are no places, or one of a job of a fixed size is lost. */
  | { readonly event: 'failed'; readonly reason: string };

/** Undefined for a line that is no event; throws a ProtocolError for one that is no object. */
export function parseEvent(line: string): RayEvent | undefined {
  const event = parseObject(Buffer.from(line));
  const isKnown =
    (event['event'] === 'cluster' &&
      hasFields(event, { nodes: isCount, cpus: isAmount, gpus: isAmount }, ['event', 'perNode', 'isOwn']) &&
      Array.isArray(event['perNode'])) ||
    (event['event'] === 'lost' && hasFields(event, { place: isCount, reason: isText }, ['event'])) ||
    (event['event'] === 'failed' && hasFields(event, { reason: isText }, ['event', 'place']));
  return isKnown ? (event as unknown as RayEvent) : undefined;
}

function isAmount(value: unknown): boolean {
  return typeof value === 'number' && value >= 0;
}
