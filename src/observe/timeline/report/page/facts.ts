// What is known of one slice, as HTML below the picture: what it is, how long it took and why, and how other ranks saw it. Texts of
// the file are set as text, never as markup.

import type { TimelineData } from '../timeline-data.ts';
import { inBytes, inTime } from '../units.ts';
import { colourOf } from './colours.ts';
import { shownName } from './paint.ts';
import {
  detailsOf,
  durationOf,
  fromOf,
  insideOf,
  nameOf,
  onAllRanks,
  outermost,
  type Place,
  type RankRows,
} from './rows.ts';

/** Differences below this share of an operation are no one's fault. */
const minLateShare = 0.05;
const maxRanks = 64;

export interface Facts {
  readonly element: HTMLElement;
  /** The same operation or step on all ranks. */
  readonly related: readonly Place[];
}

/** `show`: called when a rank is chosen. */
export function factsOf(
  data: TimelineData,
  ranks: readonly RankRows[],
  chosen: Place,
  show: (place: Place) => void,
): Facts {
  const whole = outermost(chosen);
  const { kind } = whole.row;
  const details = detailsOf(data, whole);
  const isShared = kind === 'operation' || kind === 'step';
  const related = isShared ? onAllRanks(ranks, whole) : [whole];
  const inner = insideOf(ranks, whole);
  const name = shownName(whole.row, nameOf(data, whole));
  const element = make('div', '', make('h3', '', name));
  if (kind === 'operation') element.append(make('p', 'cause', whoWasLate(ranks.length, related)));
  if (kind === 'step' && related.length > 1) element.append(make('p', 'cause', whoTookLongest(related)));
  const pairs = figuresOf(details, whole, inner, { data, ranks });
  if (chosen.row !== whole.row) {
    const part = `${shownName(chosen.row, nameOf(data, chosen))}, ${inTime(durationOf(chosen))}`;
    pairs.unshift(['Chosen part', part]);
  }
  element.append(list(pairs));
  if (kind === 'operation' && inner.length > 0) element.append(bar(data, whole, inner));
  if (isShared && related.length > 1) element.append(tableOf(data, ranks, related, show));
  return { element, related };
}

function figuresOf(
  details: Readonly<Record<string, string | number | boolean>>,
  place: Place,
  inner: readonly Place[],
  { data, ranks }: { readonly data: TimelineData; readonly ranks: readonly RankRows[] },
): [string, string][] {
  const { kind, dtype, shape, bytes, op, ...others } = details;
  const waitUs = waitedUs(data, ranks, inner);
  const queueUs = sumOf(inner.filter((part) => nameOf(data, part) === 'QUEUE'));
  const workUs = durationOf(place) - waitUs - queueUs;
  const isOperation = place.row.kind === 'operation';
  const size = typeof bytes === 'number' && bytes > 0 ? bytes : undefined;
  const speed =
    size !== undefined && inner.length > 0 && workUs > 0 ? `, ${inBytes((size / workUs) * 1e6)}/s` : '';
  const all: [string, string | undefined][] = [
    ['Rank', `${place.row.rank.rank}`],
    ['Kind', kind === undefined ? undefined : String(kind)],
    ['Tensor', dtype === undefined ? undefined : `${dtype} ${shape ?? ''}`],
    ['Size', size === undefined ? undefined : inBytes(size)],
    ['Operator', op === undefined ? undefined : String(op)],
    ['Began', `${inTime(fromOf(place))} after the start`],
    ['Took', durationOf(place) === 0 ? undefined : inTime(durationOf(place))],
    ['Waited for other ranks', isOperation && inner.length > 0 ? inTime(waitUs) : undefined],
    ['Moved and combined data', isOperation && inner.length > 0 ? `${inTime(workUs)}${speed}` : undefined],
    ...Object.entries(others).map(([key, value]): [string, string] => [inWords(key), String(value)]),
  ];
  return all.filter((pair): pair is [string, string] => pair[1] !== undefined);
}

function whoWasLate(ranksInFile: number, related: readonly Place[]): string {
  if (related.length < 2)
    return ranksInFile > 1
      ? 'The file has this operation from one rank only.'
      : 'The file has one rank only.';
  const sorted = [...related].sort((a, b) => fromOf(a) - fromOf(b));
  const [first, last] = [sorted[0], sorted.at(-1)] as [Place, Place];
  const lateUs = fromOf(last) - fromOf(first);
  const longestUs = Math.max(...related.map(durationOf));
  if (lateUs < longestUs * minLateShare) return `All ranks came within ${inTime(lateUs)}.`;
  return `Rank ${last.row.rank.rank} was last: it came ${inTime(lateUs)} after rank ${first.row.rank.rank}.`;
}

function whoTookLongest(related: readonly Place[]): string {
  const sorted = [...related].sort((a, b) => durationOf(a) - durationOf(b));
  const [least, most] = [sorted[0], sorted.at(-1)] as [Place, Place];
  const difference = durationOf(most) - durationOf(least);
  if (difference < durationOf(most) * minLateShare)
    return `All ranks took the same time, within ${inTime(difference)}.`;
  return `Rank ${most.row.rank.rank} took longest: ${inTime(durationOf(most))}.`;
}

/** The parts of an operation to scale. */
function bar(data: TimelineData, whole: Place, inner: readonly Place[]): HTMLElement {
  const parts = inner.map((part) => {
    const name = nameOf(data, part);
    const text = `${shownName(part.row, name)} ${inTime(durationOf(part))}`;
    const shown = make('span', colourOf('part', name, false), text);
    shown.style.flexGrow = String(durationOf(part) / Math.max(durationOf(whole), 1e-9));
    shown.title = text;
    return shown;
  });
  return make('div', 'parts', ...parts);
}

function tableOf(
  data: TimelineData,
  ranks: readonly RankRows[],
  related: readonly Place[],
  show: (place: Place) => void,
): HTMLElement {
  const firstUs = Math.min(...related.map(fromOf));
  const rows = [...related]
    .sort((a, b) => fromOf(b) - fromOf(a))
    .slice(0, maxRanks)
    .map((place) => {
      const waitUs = waitedUs(data, ranks, insideOf(ranks, place));
      const after = fromOf(place) - firstUs;
      const link = make('button', 'link', `rank ${place.row.rank.rank}`) as HTMLButtonElement;
      link.type = 'button';
      link.addEventListener('click', () => show(place));
      const figures = [
        after < 0.05 ? 'first' : `+${inTime(after)}`,
        ...(place.row.kind === 'operation' ? [inTime(waitUs)] : []),
        inTime(durationOf(place)),
      ];
      return make('tr', '', make('td', '', link), ...figures.map((text) => make('td', '', text)));
    });
  const isOperation = related[0]?.row.kind === 'operation';
  const head = ['rank', isOperation ? 'came' : 'began', ...(isOperation ? ['waited'] : []), 'took'];
  const headRow = make('tr', '', ...head.map((text) => make('th', '', text)));
  const table = make('table', '', make('thead', '', headRow), make('tbody', '', ...rows));
  return make('div', 'scroll', table);
}

function list(pairs: readonly (readonly [string, string])[]): HTMLElement {
  const entries = pairs.map(([term, text]) => make('div', '', make('dt', '', term), make('dd', '', text)));
  return make('dl', 'facts', ...entries);
}

/** Until all ranks had come, and for their data. */
function waitedUs(data: TimelineData, ranks: readonly RankRows[], inner: readonly Place[]): number {
  return inner.reduce((sum, part) => {
    const waits = colourOf('part', nameOf(data, part), false) === 'waiting';
    return sum + (waits ? durationOf(part) : waitedUs(data, ranks, insideOf(ranks, part)));
  }, 0);
}

function sumOf(places: readonly Place[]): number {
  return places.reduce((sum, place) => sum + durationOf(place), 0);
}

/** 'exchanges_of_pending_lists' → 'Exchanges of pending lists'; 'processSet' → 'Process set' */
function inWords(key: string): string {
  const words = key
    .replaceAll('_', ' ')
    .replace(/([a-z])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`);
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;
}

function make(tag: string, className: string, ...content: (Node | string)[]): HTMLElement {
  const element = document.createElement(tag);
  if (className !== '') element.className = className;
  element.append(...content);
  return element;
}
