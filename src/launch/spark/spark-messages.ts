// What the launcher and horovod_spark.py say to each other: one order, and events, each a line of JSON. run() starts spark-submit with
// the order in its environment, and events come on stdout with a prefix (spark-submit.ts). Where spark-submit was started first, it
// starts the launcher, with a pipe for each direction (spark-parent.ts).

import { hasFields, isCount, isText, parseObject } from '../../net/frames.ts';

/** Starts a Spark job whose tasks are the places. */
export interface SparkOrder {
  /** Of the launcher, for the agents. */
  readonly addresses: readonly string[];
  readonly secret: string;
  readonly jobId: string;
  /** Number of tasks; null: as many as Spark has slots. */
  readonly count: number | null;
  /** Plain tasks, which Spark starts again elsewhere; otherwise a barrier job. */
  readonly isElastic: boolean;
  /** Possible paths on the executors. */
  readonly node: string;
  readonly agents: readonly string[];
  readonly directory: string | null;
  readonly timeoutMs: number;
  /** What Spark's page calls it. */
  readonly name: string;
  readonly isVerbose: boolean;
  /** Spark properties that the user may override. */
  readonly defaults: Readonly<Record<string, string>>;
}

export type SparkEvent =
  | {
      readonly event: 'context';
      readonly slots: number;
      readonly master: string;
      readonly applicationId: string;
      readonly webUrl: string | null;
      /** spark.dynamicAllocation.enabled */
      readonly isDynamic: boolean;
    }
  | { readonly event: 'slots'; readonly slots: number }
  /** The Spark job has failed. */
  | { readonly event: 'failed'; readonly reason: string };

/** Throws a ProtocolError for what is none. */
export function parseEvent(line: string): SparkEvent | undefined {
  const event = parseObject(Buffer.from(line));
  const isKnown =
    (event['event'] === 'context' &&
      hasFields(event, { slots: isCount, master: isText, applicationId: isText }, [
        'event',
        'webUrl',
        'isDynamic',
      ])) ||
    (event['event'] === 'slots' && hasFields(event, { slots: isCount }, ['event'])) ||
    (event['event'] === 'failed' && hasFields(event, { reason: isText }, ['event']));
  return isKnown ? (event as unknown as SparkEvent) : undefined;
}

/** The connection to horovod_spark.py. */
export interface SparkLink {
  /** Called once. `onEnd`: it has ended, as `how` says. */
  begin(order: SparkOrder, onEvent: (event: SparkEvent) => void, onEnd: (how: string) => void): void;
  /** Resolves when Spark has ended, or has been ended. `isEnding`: its tasks have ended, so it is about to do so by itself. */
  close(isEnding: boolean): Promise<void>;
}
