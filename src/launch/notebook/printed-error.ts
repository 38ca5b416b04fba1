// The error that ended a rank, as it was printed: from the launcher's record of its end, or else from its output.

import type { LogRing } from '../../observe/dashboard/log-ring.ts';
import type { RankEnd } from '../failure-report/root-cause.ts';
import type { PrintedError } from './cell-error.ts';

/** `failure`: of the rank that failed first; undefined: mpirun does not tell which one that is. */
export function printedError(
  failure: RankEnd | undefined,
  logs: Pick<LogRing, 'linesOf'>,
  size: number,
): PrintedError | undefined {
  if (failure !== undefined) {
    const { rank, name = `rank ${rank}`, uncaught, lastWords } = failure;
    const lines = uncaught?.stack ?? lastWords?.stack.split('\n') ?? errorIn(logs.linesOf(rank));
    return lines === undefined || lines.length === 0 ? undefined : { rank, name, lines };
  }
  for (let rank = 0; rank < size; rank++) {
    const lines = errorIn(logs.linesOf(rank));
    if (lines !== undefined) return { rank, name: `rank ${rank}`, lines };
  }
  return undefined;
}

/** The last error that was printed with a stack. */
function errorIn(lines: readonly { readonly text: string }[]): string[] | undefined {
  const isFrame = (text: string | undefined) => text !== undefined && /^\s+at /.test(text);
  const first = lines.findLastIndex(({ text }, index) => isFrame(text) && !isFrame(lines[index - 1]?.text));
  if (first < 1) return undefined;
  const rest = lines.slice(first).findIndex(({ text }) => !isFrame(text));
  const end = rest < 0 ? lines.length : first + rest;
  return lines.slice(first - 1, end).map(({ text }) => text);
}
