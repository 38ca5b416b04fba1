// The errors of run(): which rank failed first, and why.

import { HorovodError } from '../../errors.ts';
import { type Outcome, rebuildError } from './outcome.ts';

export interface RankOutcome {
  readonly rank: number;
  readonly outcome: Outcome;
}

/** The first error that is not a consequence of another rank's error. */
export function failureOf(outcomes: readonly RankOutcome[]): HorovodError | undefined {
  const failed = outcomes.flatMap(({ rank, outcome }) =>
    outcome.kind === 'error' ? [{ rank, error: outcome.error }] : [],
  );
  const isConsequence = ({ rank, error }: (typeof failed)[number]) =>
    (error.code === 'ERR_HVD_PEER_LOST' || error.code === 'ERR_HVD_SHUT_DOWN') && error.rank !== rank;
  const first = failed.find((each) => !isConsequence(each)) ?? failed[0];
  if (first === undefined) return undefined;
  const { rank, error } = first;
  const unknown =
    error.name === 'ReferenceError'
      ? / (\S+ is not defined)|^(\S+) is not defined/.exec(error.message)
      : null;
  const hint =
    unknown === null
      ? ''
      : ' The function is sent to the ranks as source text, without the variables and imports around it. Import inside ' +
        'the function, pass values as `args`, or pass the path of a module instead.';
  const text = `rank ${rank} failed: ${error.name}: ${error.message}${/[.!?]$/.test(error.message) ? '' : '.'}`;
  return new HorovodError('ERR_HVD_RUN', `run: ${text}${hint}`, { rank, cause: rebuildError(error) });
}

/** A rank was killed or called process.exit(); the report of the launcher has the details. */
export function withoutResult(
  code: number,
  failedRank: number | undefined,
  remarks: readonly string[],
): HorovodError {
  // The launcher reports a failure last; without one, what it said before is about something else.
  const report = (code === 0 ? undefined : remarks.at(-1)) ?? `the job ended with code ${code}`;
  return new HorovodError('ERR_HVD_RUN', `run: a rank ended without a result. ${report}`, {
    rank: failedRank,
    exitCode: code === 0 ? undefined : code,
  });
}

export function aborted(signal: AbortSignal): HorovodError {
  return new HorovodError('ERR_HVD_ABORTED', 'run: the AbortSignal stopped the job.', {
    cause: signal.reason,
  });
}
