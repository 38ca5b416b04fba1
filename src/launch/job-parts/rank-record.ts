// What a job keeps of each process that it has started: its output, and how it ended.

import { describeEnd } from '../../control/control-block.ts';
import { how, who } from '../failure-report/report.ts';
import { blamedRank, type RankEnd } from '../failure-report/root-cause.ts';
import { numberOf, type Slot } from '../hosts/plan-slots.ts';
import type { JobOutput } from '../job-request.ts';
import { linePrefix } from '../output/prefix-lines.ts';
import { RankOutput } from '../output/rank-output.ts';
import type { UncaughtErrors } from '../output/uncaught-errors.ts';
import type { RankEnding, StartedRank } from '../ranks/host-ranks.ts';

/** How long an output stream may stay open after its rank, when another process holds it. */
const quietOutputMs = 1000;
/** Of an error in the line about a loss; all of it is in the output of the rank. */
const maxErrorLength = 160;

export interface RankRecord {
  readonly slot: Slot;
  readonly started: StartedRank;
  readonly outputs: { readonly stdout: RankOutput; readonly stderr: RankOutput };
  ending?: RankEnding;
  endedBy?: NodeJS.Signals;
}

/** Passes the output of a rank on from now. `shownRank`: the rank in the prefix of its lines. */
export function recordOf(
  started: StartedRank,
  { prefix, outputDirectory, say, stdout, stderr, onLine }: JobOutput,
  errors: UncaughtErrors,
  shownRank?: () => number,
): RankRecord {
  const { slot } = started;
  const options = {
    rank: numberOf(slot),
    shownRank,
    worker: slot.worker,
    prefix,
    directory: outputDirectory,
    size: slot.size,
    notice: say,
    onLine,
  };
  const outputs = {
    stdout: new RankOutput(started.stdout, stdout, { ...options, name: 'stdout' }),
    stderr: new RankOutput(started.stderr, stderr, { ...options, name: 'stderr', errors }),
  };
  return { slot, started, outputs };
}

/** Resolves when all output of an ended rank is out. */
export async function outputFinished({ started, outputs: { stdout, stderr } }: RankRecord): Promise<void> {
  await Promise.all(
    [stdout, stderr].map((output) =>
      started.endsItsStreams ? output.finished : output.finishWithin(quietOutputMs),
    ),
  );
}

/** What is known of the end of a rank. */
export function endOf({
  slot,
  started,
  ending = { end: { code: 0 } },
  endedBy,
  outputs,
}: RankRecord): RankEnd {
  const { lastWords, failure, state, wasKilledByFence = false } = started.testament ?? {};
  const number = numberOf(slot);
  return {
    rank: number,
    hostname: slot.hostname,
    pid: started.pid,
    ...ending,
    endedBy: endedBy ?? (wasKilledByFence ? 'SIGKILL' : undefined),
    wasKilledByFence,
    lastWords,
    blamed: blamedRank(number, lastWords, failure),
    recorded: failure?.message,
    stderrTail: outputs.stderr.tail,
    uncaught: outputs.stderr.uncaught,
    state,
  };
}

/** Completes 'rank 1 …': 'was killed by SIGKILL'. */
export function lossText({ slot, started: { testament } }: RankRecord, { end, lost }: RankEnding): string {
  return lost === undefined
    ? describeEnd(end, testament?.state === 'attached')
    : `was lost with ${slot.hostname}: ${lost},`;
}

/** The error that ended it: ' (RangeError: the loss is not a number)'; empty if it has left none. */
export function errorText({ started: { testament } }: RankRecord, { end }: RankEnding): string {
  const error = testament?.lastWords;
  if (error === undefined || 'signal' in end || end.code === 0) return '';
  const [line = ''] = error.message.split('\n');
  return ` (${`${error.name}: ${line}`.slice(0, maxErrorLength).replace(/\.$/, '')})`;
}

/** For --verbose. */
export function endText({ slot, started: { pid } }: RankRecord, ending: RankEnding): string {
  const name = slot.worker === undefined ? undefined : `worker ${slot.worker}`;
  return `${who({ rank: slot.rank, name, hostname: slot.hostname, pid })} ${how(ending)}`;
}

/** To all that have not ended. */
export function signalRunning(records: Iterable<RankRecord>, signal: NodeJS.Signals): void {
  for (const record of records) {
    if (record.ending !== undefined || record.started.pid === undefined) continue;
    record.endedBy = signal;
    record.started.signal(signal);
  }
}

/** What the prefix of its lines leaves of the terminal for rank 0. */
export function columnsForRank(
  { prefix }: Pick<JobOutput, 'prefix'>,
  columns: number | undefined,
): number | undefined {
  if (columns === undefined) return undefined;
  const text = prefix === 'none' ? '' : linePrefix(0, 'stdout', prefix === 'rank' ? undefined : new Date());
  return Math.max(columns - text.length, 1);
}

/** '1 rank', '4 ranks' */
export function ranksText(count: number): string {
  return `${count} rank${count === 1 ? '' : 's'}`;
}
