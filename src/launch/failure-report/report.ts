// What horovodrun prints when a job has failed: the first failure, then a line for each other rank.

import { listRanks } from '../../console/list-ranks.ts';
import { describeEnd } from '../../control/control-block.ts';
import { exitCodeOf, exitingRank, leftWithoutWord, type RankEnd, wasEndedByUs } from './root-cause.ts';

export function failureReport(cause: RankEnd, ends: readonly RankEnd[]): string {
  const lines = ['The job has failed. First failure:', `  ${first(cause, ends)}`];
  const hint = hintFor(cause);
  if (hint !== undefined) lines.push(`  ${hint}`);
  const { blamed, recorded } = cause;
  // It failed because of a rank that did not fail by itself (hosts that cannot reach each other blame each other), or we ended
  // it and the others have ended well.
  if ((blamed !== undefined || wasEndedByUs(cause)) && recorded !== undefined)
    lines.push(`  Reported by the ranks: ${recorded}`);
  lines.push(...errorLines(cause).map((line) => `  ${line}`));
  const isPartOfCause = ({ rank, hostname, lost }: RankEnd) =>
    rank === cause.rank || (lost !== undefined && lost === cause.lost && hostname === cause.hostname);
  const others = ends.filter((one) => !isPartOfCause(one)).sort((a, b) => a.rank - b.rank);
  if (others.length > 0) lines.push('Other ranks:', ...otherLines(cause, others).map((line) => `  ${line}`));
  const exiting = exitingRank(cause, ends);
  const code = exitCodeOf(exiting.end);
  lines.push(
    `Exit code: ${code}${cause.lost === undefined ? ` (that of ${exiting.name ?? `rank ${exiting.rank}`})` : ''}`,
  );
  return lines.join('\n');
}

/** An error that is on the console already is shown without its stack. */
function errorLines({ uncaught, lastWords, stderrTail }: RankEnd): string[] {
  if (uncaught !== undefined) return [...uncaught.lines];
  const isPrinted =
    lastWords !== undefined && stderrTail.some((line) => line.includes(firstLine(lastWords.message)));
  const lines: string[] = [];
  if (lastWords !== undefined && !isPrinted) {
    lines.push('Its error:', ...indented(lastWords.stack || `${lastWords.name}: ${lastWords.message}`));
  }
  if (stderrTail.length > 0)
    lines.push('Last lines of its stderr:', ...stderrTail.map((line) => `  ${line}`));
  return lines;
}

/** A line for each; ranks that ended with the same error share one. */
function otherLines(cause: RankEnd, others: readonly RankEnd[]): string[] {
  const told = new Set<RankEnd>();
  return others.flatMap((one) => {
    if (told.has(one)) return [];
    const alike = others.filter((other) => other === one || areAlike(one, other));
    for (const other of alike) told.add(other);
    const isSame = areAlike(one, cause) ? ', with the same error' : '';
    const ranks = listRanks(alike.map(({ rank }) => rank));
    return alike.length === 1 ? [`${aftermath(one)}${isSame}`] : [`${ranks} ${ended(one, 'they')}${isSame}`];
  });
}

/** They ended in the same way, with the same error; one of them printed it. */
function areAlike(one: RankEnd, other: RankEnd): boolean {
  const { uncaught } = one;
  if (uncaught === undefined || other.uncaught === undefined) return false;
  const isSame = (uncaught.sameAs ?? one.rank) === (other.uncaught.sameAs ?? other.rank);
  return isSame && ended(one) === ended(other);
}

/** A lost host is reported once, with all its ranks. */
function first(cause: RankEnd, ends: readonly RankEnd[]): string {
  if (cause.lost === undefined) {
    if (!leftWithoutWord(cause)) return `${who(cause)} ${ending(cause)}`;
    return `${who(cause)} ${describeEnd(cause.end, cause.state === 'attached')}, while other ranks needed it`;
  }
  const ranks = ends.filter(({ hostname, lost }) => hostname === cause.hostname && lost !== undefined);
  const numbers = ranks.map(({ rank }) => rank).sort((a, b) => a - b);
  return `${cause.hostname} was lost, with ${listRanks(numbers)}: ${cause.lost}`;
}

export function who({
  rank,
  name = `rank ${rank}`,
  hostname,
  pid,
}: Pick<RankEnd, 'rank' | 'name' | 'hostname' | 'pid'>): string {
  return pid === undefined ? `${name} on ${hostname}` : `${name} on ${hostname} (pid ${pid})`;
}

export function how({ end, spawnError, lost }: Pick<RankEnd, 'end' | 'spawnError' | 'lost'>): string {
  if (lost !== undefined) return `was lost with its host: ${lost}`;
  if (spawnError !== undefined) return `could not be started: ${spawnError}`;
  return 'code' in end && end.code === 0 ? 'exited with code 0' : describeEnd(end);
}

/** 'rank 0 on localhost (pid 7) exited with code 1, because it lost rank 2' */
export function aftermath(other: RankEnd): string {
  return `${who(other)} ${ended(other)}`;
}

function ended(other: RankEnd, whoever = 'it'): string {
  const { blamed } = other;
  const isLoss = blamed !== undefined && !wasEndedByUs(other);
  return `${ending(other)}${isLoss ? `, because ${whoever} lost rank ${blamed}` : ''}`;
}

function ending(rank: RankEnd): string {
  if (!wasEndedByUs(rank)) return how(rank);
  const why = rank.wasKilledByFence
    ? ': the job had failed, and it could still write into the memory of other ranks'
    : '';
  return `was stopped by horovodrun (${rank.endedBy})${why}`;
}

function hintFor(cause: RankEnd): string | undefined {
  const { end } = cause;
  if (!('signal' in end) || wasEndedByUs(cause)) return undefined;
  if (end.signal === 'SIGKILL')
    return 'horovodrun did not send this signal. The kernel sends it when memory runs out (see dmesg).';
  if (end.signal === 'SIGBUS')
    return 'A full memory file system can cause this. Check /dev/shm (HOROVOD_SHM_DIR).';
  return undefined;
}

function indented(text: string): string[] {
  return text.split('\n').map((line) => `  ${line}`);
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] as string;
}
