// Slurm's compressed lists: hosts as `node[01-03,7],login` and counts as `2(x3),1`.

import { HorovodError } from '../errors.ts';

/** Larger than any cluster: a wrong range must not exhaust the memory. */
const maxItems = 1 << 20;

/** `source` names the text in errors. A name may have several brackets; every combination is a host. */
export function expandHostList(text: string, source: string): string[] {
  const hosts = splitOutsideBrackets(text, source).flatMap((word) => expandWord(word, text, source));
  if (hosts.length === 0) throw wrong(text, source, 'node[1-3],other');
  return hosts;
}

/** The number of tasks of each node. */
export function expandTaskCounts(text: string, source: string): number[] {
  return text.split(',').flatMap((item) => {
    const match = /^(\d+)(?:\(x(\d+)\))?$/.exec(item.trim());
    const times = Number(match?.[2] ?? 1);
    if (match === null || times > maxItems) throw wrong(text, source, '2(x3),1');
    return Array.from({ length: times }, () => Number(match[1]));
  });
}

function splitOutsideBrackets(text: string, source: string): string[] {
  const words: string[] = [];
  let depth = 0;
  let word = '';
  for (const letter of text) {
    if (letter === '[') depth++;
    if (letter === ']') depth--;
    if (depth < 0 || depth > 1) throw wrong(text, source, 'node[1-3],other');
    if (letter === ',' && depth === 0) {
      words.push(word);
      word = '';
    } else {
      word += letter;
    }
  }
  if (depth !== 0) throw wrong(text, source, 'node[1-3],other');
  return [...words, word].map((each) => each.trim()).filter((each) => each !== '');
}

function expandWord(word: string, text: string, source: string): string[] {
  const open = word.indexOf('[');
  if (open < 0) return [word];
  const close = word.indexOf(']', open);
  const numbers = word
    .slice(open + 1, close)
    .split(',')
    .flatMap((range) => expandRange(range, text, source));
  const rests = expandWord(word.slice(close + 1), text, source);
  if (numbers.length * rests.length > maxItems) throw wrong(text, source, 'node[1-3],other');
  return numbers.flatMap((number) => rests.map((rest) => `${word.slice(0, open)}${number}${rest}`));
}

/** `08-10`: 08, 09, 10. */
function expandRange(range: string, text: string, source: string): string[] {
  const match = /^(\d+)(?:-(\d+))?$/.exec(range);
  const [first, last] = [Number(match?.[1]), Number(match?.[2] ?? match?.[1])];
  if (match === null || last < first || last - first >= maxItems) {
    throw wrong(text, source, 'node[1-3],other');
  }
  const width = (match[1] as string).length;
  return Array.from({ length: last - first + 1 }, (_, index) => String(first + index).padStart(width, '0'));
}

function wrong(text: string, source: string, example: string): HorovodError {
  return new HorovodError(
    'ERR_HVD_SETTING',
    `${source} is ${JSON.stringify(text)}; expected a list such as ${example}.`,
  );
}
