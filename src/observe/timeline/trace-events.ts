// Records of ranks become events of a trace (Chrome's Trace Event Format): a process for each rank, a thread for each
// of its tracks, complete events ('X') that lie properly inside each other, and instants ('i'). Pure: records in, lines of
// JSON out. Names of phases are Python Horovod's where it has them (QUEUE, NEGOTIATE_ALLREDUCE, ALLREDUCE, CYCLE_START).
// Times are whole nanoseconds here. Readers add `dur` to `ts` in floating point, so a slice whose end is exactly that of its
// parent, or the start of its neighbour, may end after it; strict readers then lose the nesting. So every slice ends some
// nanoseconds early, inner ones earlier than those around them.

import { stage } from '../../transport/trace.ts';
import { type Hello, operationWords, recordType, stageNames, textOf, tracks } from './records.ts';

/** How many operations of a rank are shown side by side. A further one is drawn as if it began when another ended. */
const mostLanes = 256;

/** How much earlier a slice ends, for each level of nesting. */
const gapNs = 2;
/** Of an outermost slice: room for the gap and something to see. */
const minSliceNs = 4 * gapNs;

interface Text {
  /** As JSON, with quotes. */
  readonly quoted: string;
  readonly text: string;
  /** If the text contains members of a JSON object: `,"dtype":"float32"`. */
  members?: string;
  kind?: string;
}

/** Times in nanoseconds since the start of the trace; `to` without the gap. */
interface Slice {
  readonly category: string;
  readonly track: number;
  /** How many slices are around it. */
  readonly depth: number;
  readonly from: number;
  readonly to: number;
}

const lostText: Text = { quoted: '"(lost)"', text: '(lost)', members: '', kind: 'operation' };

const trackNames: Readonly<Record<number, string>> = {
  [tracks.steps]: 'steps',
  [tracks.training]: 'forward, backprop, update',
  [tracks.cycles]: 'cycles',
  [tracks.tuning]: 'autotune',
  [tracks.resets]: 'resets',
  [tracks.data]: 'data',
};

/** What a file says about the job that wrote it. */
export interface TraceOrigin {
  /** Of this package. */
  readonly version: string;
  /** The script of rank 0 and its arguments. */
  readonly command: string;
}

/** How the times of a rank become those of rank 0's host. */
export interface RankClock {
  readonly clockOffsetUs: number;
  /** `clockOffsetUs` is at most so far off: 0 on the same host, infinite if the clocks were never compared. */
  readonly clockErrorUs: number;
}

/** The first event of every file. */
export function openingEvent(startedAtEpochUs: number, origin?: TraceOrigin): string {
  const args = {
    name: 'horovod timeline',
    start_time_since_epoch_in_micros: Math.round(startedAtEpochUs),
    ...origin,
  };
  return `{"name":"process_name","ph":"M","ts":0,"pid":0,"tid":0,"args":${JSON.stringify(args)}}`;
}

/** The process of a rank, or of a worker, in the trace. Number 0 is the trace's own. */
export function processOf(number: number): number {
  return number + 1;
}

/** The stream of one rank. */
export class RankEvents {
  readonly #startUs: number;
  readonly #texts = new Map<number, Text>();
  readonly #named = new Set<number>();
  /** When the last slice of each track ended. */
  readonly #ends = new Map<number, number>();
  #lanes = 0;
  #hello: Hello | undefined;
  #metadata: string[] = [];
  #pid = 0;

  /** `startUs`: when the trace began, by the clock of rank 0's host. */
  constructor(startUs: number) {
    this.#startUs = startUs;
  }

  get hello(): Hello | undefined {
    return this.#hello;
  }

  /** Names of processes and threads so far, for the beginning of a new file. */
  get metadata(): readonly string[] {
    return this.#metadata;
  }

  /** Adds the events of a record. */
  convert(type: number, words: Float64Array, clock: RankClock, into: string[]): void {
    // Written for an earlier reader. The rank is not known.
    if (this.#hello === undefined && type !== recordType.text) return;
    const shift = clock.clockOffsetUs - this.#startUs;
    switch (type) {
      case recordType.text:
        this.#learn(words, clock.clockErrorUs, into);
        return;
      case recordType.forget:
        this.#texts.clear();
        return;
      case recordType.slice: {
        const track = words[1] as number;
        const name = this.#text(words[2] as number);
        const args = this.#text(words[5] as number);
        this.#nameTrack(track, trackNames[track] ?? `track ${track}`, into);
        const place = this.#placeOn(
          track,
          toNs((words[3] as number) + shift),
          toNs((words[4] as number) + shift),
        );
        into.push(
          this.#slice(name.quoted, { category: 'training', track, depth: 0, ...place }, membersOf(args)),
        );
        return;
      }
      case recordType.instant: {
        const track = words[1] as number;
        const name = this.#text(words[2] as number);
        const members = membersOf(this.#text(words[4] as number)).slice(1);
        this.#nameTrack(track, trackNames[track] ?? `track ${track}`, into);
        const at = toNs(Math.max(0, (words[3] as number) + shift)) / 1000;
        into.push(
          `{"name":${name.quoted},"ph":"i","s":"p","ts":${at},"pid":${this.#pid},"tid":${track},"args":{${members}}}`,
        );
        return;
      }
      case recordType.operation:
        this.#operation(words, shift, into);
        return;
      default:
    }
  }

  /** Adds an event that says that records were lost here. */
  dropped(records: number, atUs: number, into: string[]): void {
    const at = toNs(atUs - this.#startUs) / 1000;
    this.#nameTrack(tracks.cycles, trackNames[tracks.cycles] as string, into);
    into.push(
      `{"name":"EVENTS_DROPPED","ph":"i","s":"p","ts":${at},"pid":${this.#pid},"tid":${tracks.cycles},"args":{"events":${records}}}`,
    );
  }

  #learn(words: Float64Array, clockErrorUs: number, into: string[]): void {
    const id = words[1] as number;
    const text = textOf(words);
    if (id !== 0) {
      this.#texts.set(id, { quoted: JSON.stringify(text), text });
      return;
    }
    if (this.#hello !== undefined) return;
    this.#hello = JSON.parse(text) as Hello;
    const { rank, worker = rank, host, pid, cores } = this.#hello;
    this.#pid = processOf(worker);
    const name = JSON.stringify(`rank ${rank} (${host}, pid ${pid})`);
    // Infinite becomes null in JSON.
    const error = clockErrorUs === 0 ? '' : `,"clock_error_us":${JSON.stringify(Math.ceil(clockErrorUs))}`;
    this.#tell(
      `{"name":"process_name","ph":"M","ts":0,"pid":${this.#pid},"tid":0,"args":{"name":${name},"cores":${cores}${error}}}`,
      into,
    );
    this.#tell(
      `{"name":"process_sort_index","ph":"M","ts":0,"pid":${this.#pid},"tid":0,"args":{"sort_index":${rank}}}`,
      into,
    );
  }

  #operation(words: Float64Array, shift: number, into: string[]): void {
    const args = this.#text(words[2] as number);
    const members = membersOf(args);
    const kind = args.kind ?? 'operation';
    const upper = upperName(kind);
    const lane = this.#laneFor(toNs((words[4] as number) + shift));
    const track = tracks.operations + lane;
    const { from: submitted, to: over } = this.#placeOn(
      track,
      toNs((words[4] as number) + shift),
      toNs((words[6] as number) + shift),
    );
    const left =
      (words[5] as number) === 0 ? over : clamp(toNs((words[5] as number) + shift), submitted, over);
    const nameId = words[1] as number;
    const error = words[7] as number;
    const exchanges = words[8] as number;
    this.#nameTrack(track, lane === 0 ? 'collectives' : `collectives (${lane + 1})`, into);
    const name = nameId === 0 ? JSON.stringify(`${kind}.noname`) : this.#text(nameId).quoted;
    const details =
      members +
      (nameId === 0 ? `,"number":${words[3]}` : '') +
      (error === 0 ? '' : `,"error":${this.#text(error).quoted}`);
    const whole = { category: kind, track, depth: 0, from: submitted, to: over };
    into.push(this.#slice(name, whole, details));
    this.#inside(whole, '"QUEUE"', submitted, left, '', into);
    this.#phases(words, shift, { whole, upper, left, exchanges }, into);
  }

  #phases(
    words: Float64Array,
    shift: number,
    operation: { whole: Slice; upper: string; left: number; exchanges: number },
    into: string[],
  ): void {
    const { whole, upper, left, exchanges } = operation;
    const { to: over } = whole;
    const marks: { stage: number; at: number }[] = [];
    let last = left;
    for (let i = operationWords; i + 1 < words.length; i += 2) {
      last = clamp(toNs((words[i + 1] as number) + shift), last, over);
      marks.push({ stage: words[i] as number, at: last });
    }
    const agreed = marks.findIndex((mark) => mark.stage === stage.agreed);
    const details = exchanges > 0 ? `,"exchanges_of_pending_lists":${exchanges}` : '';
    if (marks.length === 0) {
      // A transport without marks: waiting and transfer cannot be distinguished.
      this.#inside(whole, `"${upper}"`, left, over, details, into);
      return;
    }
    const begin = agreed < 0 ? over : (marks[agreed]?.at as number);
    this.#inside(whole, `"NEGOTIATE_${upper}"`, left, begin, details, into);
    if (agreed < 0) return;
    const work = this.#inside(whole, `"${upper}"`, begin, over, '', into);
    for (let i = agreed + 1; i < marks.length; i++) {
      const { stage: code, at } = marks[i] as { stage: number; at: number };
      const until = marks[i + 1]?.at ?? over;
      const name = stageNames[code] ?? `STAGE_${code}`;
      if (name !== '') this.#inside(work, `"${name}"`, at, until, '', into);
    }
  }

  /** A slice inside another one. Left out if it is too short to be visible. */
  #inside(parent: Slice, name: string, from: number, to: number, members: string, into: string[]): Slice {
    const slice = { ...parent, depth: parent.depth + 1, from, to };
    if (endOf(slice) > from) into.push(this.#slice(name, slice, members));
    return slice;
  }

  #slice(name: string, slice: Slice, members: string): string {
    const { category, track, from } = slice;
    const args = members === '' ? '' : `,"args":{${members.slice(1)}}`;
    const times = `"ts":${from / 1000},"dur":${(endOf(slice) - from) / 1000}`;
    return `{"name":${name},"cat":"${category}","ph":"X",${times},"pid":${this.#pid},"tid":${track}${args}}`;
  }

  /** The place of a slice on its track: after the previous slice, even if the clocks disagree. */
  #placeOn(track: number, from: number, to: number): { from: number; to: number } {
    // Slices that began before the file are moved to its beginning, because viewers do not support negative times.
    const begin = Math.max(from, this.#ends.get(track) ?? 0);
    const end = Math.max(to, begin + minSliceNs);
    this.#ends.set(track, end);
    return { from: begin, to: end };
  }

  /** Operations come in the order of their ends. A lane is free if its last operation ended before this one began. */
  #laneFor(from: number): number {
    const endOfLane = (lane: number) => this.#ends.get(tracks.operations + lane) ?? 0;
    let earliest = 0;
    for (let lane = 0; lane < this.#lanes; lane++) {
      if (endOfLane(lane) <= Math.max(from, 0)) return lane;
      if (endOfLane(lane) < endOfLane(earliest)) earliest = lane;
    }
    return this.#lanes < mostLanes ? this.#lanes++ : earliest;
  }

  #nameTrack(track: number, name: string, into: string[]): void {
    if (this.#named.has(track)) return;
    this.#named.add(track);
    const where = `"ph":"M","ts":0,"pid":${this.#pid},"tid":${track}`;
    this.#tell(`{"name":"thread_name",${where},"args":{"name":${JSON.stringify(name)}}}`, into);
    this.#tell(`{"name":"thread_sort_index",${where},"args":{"sort_index":${track}}}`, into);
  }

  #tell(event: string, into: string[]): void {
    this.#metadata.push(event);
    into.push(event);
  }

  #text(id: number): Text {
    if (id === 0) return { ...lostText, members: '' };
    return this.#texts.get(id) ?? lostText;
  }
}

/** `,"a":1,"b":2` if the text contains the members of an object; otherwise empty. */
function membersOf(text: Text): string {
  if (text.members !== undefined) return text.members;
  text.members = '';
  try {
    const value = JSON.parse(`{${text.text}}`) as { kind?: unknown };
    if (text.text !== '') text.members = `,${text.text}`;
    if (typeof value.kind === 'string') text.kind = value.kind;
  } catch {
    // It was truncated because of its length.
  }
  return text.members;
}

/** broadcastObject → BROADCAST_OBJECT */
export function upperName(kind: string): string {
  return kind.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}

/** The clocks have a resolution of nanoseconds. */
function toNs(us: number): number {
  return Math.round(us * 1000);
}

function endOf({ to, depth }: Slice): number {
  return to - gapNs * (depth + 1);
}
