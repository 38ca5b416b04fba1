// Single slices of a trace, for the page of the report. A page must stay small enough to be opened anywhere, so there is a limit for
// their number. A census during the first reading of the file finds the duration that a slice needs to be among them; the second
// reading collects them.

import { tracks } from '../records.ts';
import type { TraceEvent } from './read-trace.ts';
import type { TraceSummary } from './summary.ts';
import { type Details, type TimelineData, type TrackData, unitsPerUs } from './timeline-data.ts';

/** About 5 MB of a page. */
const defaultMaxSlices = 150_000;
/** Four bins for each power of two, from 1 ns to about an hour. */
const binsPerPower = 4;
const bins = 42 * binsPerPower;
/** Names of tensors may be long; what tells them apart is at both ends. */
const maxTextLength = 400;

export interface SliceLimits {
  readonly maxSlices?: number | undefined;
}

/** Counts slices by their duration. */
export class SliceCensus {
  readonly #counts = new Float64Array(bins);

  add({ ph, dur }: TraceEvent): void {
    if (ph === 'X' || ph === 'i') this.#counts[binOf(dur)] = (this.#counts[binOf(dur)] as number) + 1;
  }

  /** The longest slices, as many as there may be, are those of this duration or longer. 0: all. */
  minUs(maxSlices: number): number {
    let sum = 0;
    for (let bin = bins - 1; bin >= 0; bin--) {
      sum += this.#counts[bin] as number;
      if (sum > maxSlices) return startOf(bin + 1);
    }
    return 0;
  }
}

interface Slice {
  readonly fromUs: number;
  readonly durationUs: number;
  readonly name: number;
  readonly details: number;
}

interface Track {
  title: string;
  readonly slices: Slice[];
}

export class SliceCollector {
  readonly #minUs: number;
  readonly #names = new Map<string, number>();
  readonly #details = new Map<string, number>();
  readonly #detailsList: Details[] = [];
  readonly #tracks = new Map<number, Map<number, Track>>();
  #leftOut = 0;

  constructor(census: SliceCensus, { maxSlices = defaultMaxSlices }: SliceLimits = {}) {
    this.#minUs = census.minUs(maxSlices);
  }

  add(event: TraceEvent): void {
    const { name, ph, ts, dur, pid, tid, args } = event;
    if (ph === 'M' && name === 'thread_name') this.#trackOf(pid, tid).title = String(args['name'] ?? '');
    if (ph !== 'X' && ph !== 'i') return;
    // Other instants are few, and what they mark matters: a reset, events that were dropped.
    const isMark = ph === 'i' && name !== 'CYCLE_START';
    if (dur < this.#minUs && !isMark) {
      this.#leftOut++;
      return;
    }
    this.#trackOf(pid, tid).slices.push({
      fromUs: Math.max(0, ts),
      durationUs: ph === 'i' ? 0 : dur,
      name: indexIn(this.#names, shortened(name)),
      details: this.#indexOfDetails(args),
    });
  }

  end(summary: TraceSummary): TimelineData {
    const endUs = Math.max(summary.toUs, 1);
    const step = stepOf(summary, endUs);
    return {
      view: step ?? { fromUs: 0, toUs: endUs },
      endUs,
      step,
      leftOut: this.#leftOut,
      minUs: this.#minUs,
      names: [...this.#names.keys()],
      details: this.#detailsList,
      ranks: summary.ranks.map(({ rank, name, pid }) => {
        const [, title = name, place = ''] = /^(rank \d+) \((.*)\)$/.exec(name) ?? [];
        const own = [...(this.#tracks.get(pid) ?? [])].filter(([, { slices }]) => slices.length > 0);
        return { rank, title, place, tracks: own.sort(([a], [b]) => a - b).map(toData) };
      }),
    };
  }

  #trackOf(pid: number, tid: number): Track {
    const ofRank = this.#tracks.get(pid) ?? new Map<number, Track>();
    this.#tracks.set(pid, ofRank);
    const track = ofRank.get(tid) ?? { title: tid >= tracks.operations ? 'collectives' : '', slices: [] };
    ofRank.set(tid, track);
    return track;
  }

  /** 0: no details. */
  #indexOfDetails(args: TraceEvent['args']): number {
    const entries: [string, string | number | boolean][] = [];
    for (const [key, value] of Object.entries(args)) {
      if (typeof value === 'number' || typeof value === 'boolean') entries.push([key, value]);
      else if (typeof value === 'string') entries.push([key, shortened(value)]);
      else if (value !== null) entries.push([key, shortened(JSON.stringify(value))]);
    }
    if (entries.length === 0) return 0;
    const details = Object.fromEntries(entries);
    const index = indexIn(this.#details, JSON.stringify(details));
    if (index === this.#detailsList.length) this.#detailsList.push(details);
    return index + 1;
  }
}

/** A typical step of the first rank that has steps, with a little of its neighbours: ranks do not begin at the same time. */
function stepOf({ ranks }: TraceSummary, endUs: number): TimelineData['step'] {
  const step = ranks.find(({ steps }) => steps > 0)?.stepSeries.typical;
  if (step === undefined) return undefined;
  const marginUs = step.durationUs * 0.05;
  const toUs = Math.min(endUs, step.fromUs + step.durationUs + marginUs);
  return { fromUs: Math.max(0, step.fromUs - marginUs), toUs };
}

function toData([id, { title, slices }]: [number, Track]): TrackData {
  // A parent before what is inside of it.
  slices.sort((a, b) => a.fromUs - b.fromUs || b.durationUs - a.durationUs);
  const numbers: number[] = [];
  let before = 0;
  for (const { fromUs, durationUs, name, details } of slices) {
    const from = Math.round(fromUs * unitsPerUs);
    const to = Math.round((fromUs + durationUs) * unitsPerUs);
    // What lasts at all is not an instant.
    const duration = durationUs === 0 ? 0 : Math.max(1, to - from);
    numbers.push(from - before, duration, name, details);
    before = from;
  }
  return { id, title, slices: numbers };
}

function indexIn(map: Map<string, number>, text: string): number {
  const known = map.get(text);
  if (known !== undefined) return known;
  map.set(text, map.size);
  return map.size - 1;
}

function shortened(text: string): string {
  if (text.length <= maxTextLength) return text;
  const half = maxTextLength / 2 - 1;
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

function binOf(us: number): number {
  const bin = Math.floor(Math.log2(Math.max(us * 1000, 1)) * binsPerPower);
  return Math.min(bin, bins - 1);
}

function startOf(bin: number): number {
  return 2 ** (bin / binsPerPower) / 1000;
}
