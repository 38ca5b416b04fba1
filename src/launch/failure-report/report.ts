// What horovodrun prints when a job has failed: the first failure, then a line for each other rank.

import { describeEnd } from '../../control/control-block.ts';
import { listRanks } from '../../engine/agreement/resolve.ts';
import { exitCodeOf, type RankEnd, wasEndedByUs } from './root-cause.ts';

export function failureReport(cause: RankEnd, ends: readonly RankEnd[]): string {
  const lines = ['The job has failed. First failure:', `  ${first(cause, ends)}`];
  const hint = hintFor(cause);
  if (hint !== undefined) lines.push(`  ${hint}`);
  const { lastWords, stderrTail, blamed, recorded } = cause;
  // It failed because of a rank that did not fail by itself: hosts that cannot reach each other blame each other.
  if (blamed !== undefined && recorded !== undefined) lines.push(`  Reported by the ranks: ${recorded}`);
  // An uncaught exception is usually on stderr as well; once is enough.
  if (lastWords !== undefined && !stderrTail.some((line) => line.includes(firstLine(lastWords.message)))) {
    lines.push('  Its error:', ...indented(lastWords.stack || `${lastWords.name}: ${lastWords.message}`));
  }
  if (stderrTail.length > 0)
    lines.push('  Last lines of its stderr:', ...stderrTail.map((line) => `    ${line}`));
  const isPartOfCause = ({ rank, hostname, lost }: RankEnd) =>
    rank === cause.rank || (lost !== undefined && lost === cause.lost && hostname === cause.hostname);
  const others = ends.filter((one) => !isPartOfCause(one)).sort((a, b) => a.rank - b.rank);
  if (others.length > 0) lines.push('Other ranks:', ...others.map((other) => `  ${aftermath(other)}`));
  const code = exitCodeOf(cause.end);
  lines.push(`Exit code: ${code}${cause.lost === undefined ? ` (that of rank ${cause.rank})` : ''}`);
  return lines.join('\n');
}

/** A lost host is reported once, with all its ranks. */
function first(cause: RankEnd, ends: readonly RankEnd[]): string {
  if (cause.lost === undefined) return `${who(cause)} ${how(cause)}`;
  const ranks = ends.filter(({ hostname, lost }) => hostname === cause.hostname && lost !== undefined);
  const numbers = ranks.map(({ rank }) => rank).sort((a, b) => a - b);
  return `${cause.hostname} was lost, with ${listRanks(numbers)}: ${cause.lost}`;
}

export function who({ rank, hostname, pid }: Pick<RankEnd, 'rank' | 'hostname' | 'pid'>): string {
  return pid === undefined ? `rank ${rank} on ${hostname}` : `rank ${rank} on ${hostname} (pid ${pid})`;
}

export function how({ end, spawnError, lost }: Pick<RankEnd, 'end' | 'spawnError' | 'lost'>): string {
  if (lost !== undefined) return `was lost with its host: ${lost}`;
  if (spawnError !== undefined) return `could not be started: ${spawnError}`;
  return 'code' in end && end.code === 0 ? 'exited with code 0' : describeEnd(end);
}

function aftermath(other: RankEnd): string {
  if (wasEndedByUs(other)) {
    return `${who(other)} was stopped by horovodrun (${other.endedBy})`;
  }
  const { blamed } = other;
  return `${who(other)} ${how(other)}${blamed === undefined ? '' : `, because it lost rank ${blamed}`}`;
}

function hintFor({ end }: RankEnd): string | undefined {
  if (!('signal' in end)) return undefined;
  if (end.signal === 'SIGKILL')
    return 'horovodrun did not send this signal. The kernel sends it when memory runs out (see dmesg).';
  if (end.signal === 'SIGBUS')
    return 'A full memory file system can cause this. Check /dev/shm (HOROVOD_SHM_DIR).';
  return undefined;
}

function indented(text: string): string[] {
  return text.split('\n').map((line) => `    ${line}`);
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] as string;
}
