// Records of ranks become events of a trace (Chrome's Trace Event Format): a process for each rank, a thread for each
// of its tracks, complete events ('X') that lie properly inside each other, and instants ('i'). Pure: records in, lines of
// JSON out. Names of phases are Python Horovod's where it has them (QUEUE, NEGOTIATE_ALLREDUCE, ALLREDUCE, CYCLE_START).

import { stage } from '../../transport/trace.ts';
import { type Hello, operationWords, recordType, stageNames, textOf, tracks } from './records.ts';

/** How many operations of a rank are shown side by side; one more begins, in the picture, when another one has ended. */
const mostLanes = 256;

interface Text {
  /** As JSON, quotes and all. */
  readonly quoted: string;
  readonly text: string;
  /** Members of an object, if it is such: `,"dtype":"float32"`. */
  members?: string;
  kind?: string;
}

const lostText: Text = { quoted: '"(lost)"', text: '(lost)', members: '', kind: 'operation' };

const trackNames: Readonly<Record<number, string>> = {
  [tracks.steps]: 'steps',
  [tracks.training]: 'forward, backprop, update',
  [tracks.cycles]: 'cycles',
  [tracks.tuning]: 'autotune',
};

/** The first event of every file. */
export function openingEvent(startedAtEpochUs: number): string {
  return (
    '{"name":"process_name","ph":"M","ts":0,"pid":0,"tid":0,"args":{"name":"horovod timeline",' +
    `"start_time_since_epoch_in_micros":${Math.round(startedAtEpochUs)}}}`
  );
}

/** The process of a rank in the trace. Number 0 is the trace's own. */
export function processOf(rank: number): number {
  return rank + 1;
}

/** The stream of one rank. */
export class RankEvents {
  readonly #startUs: number;
  readonly #texts = new Map<number, Text>();
  readonly #named = new Set<number>();
  readonly #lanes: number[] = [];
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

  /** Names of processes and threads so far, for a file that begins anew. */
  get metadata(): readonly string[] {
    return this.#metadata;
  }

  /** Adds the events of a record; `offsetUs` makes its times those of rank 0's host. */
  convert(type: number, words: Float64Array, offsetUs: number, into: string[]): void {
    // Written for a reader before this one: of whom is not known.
    if (this.#hello === undefined && type !== recordType.text) return;
    const shift = offsetUs - this.#startUs;
    switch (type) {
      case recordType.text:
        this.#learn(words, into);
        return;
      case recordType.forget:
        this.#texts.clear();
        return;
      case recordType.slice: {
        const track = words[1] as number;
        const name = this.#text(words[2] as number);
        const args = this.#text(words[5] as number);
        this.#nameTrack(track, trackNames[track] ?? `track ${track}`, into);
        const from = (words[3] as number) + shift;
        into.push(
          this.#slice(name.quoted, 'training', track, from, (words[4] as number) + shift, membersOf(args)),
        );
        return;
      }
      case recordType.instant: {
        const track = words[1] as number;
        const name = this.#text(words[2] as number);
        const members = membersOf(this.#text(words[4] as number)).slice(1);
        this.#nameTrack(track, trackNames[track] ?? `track ${track}`, into);
        const at = round(Math.max(0, (words[3] as number) + shift));
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

  /** Records were lost: says so at this place. */
  dropped(records: number, atUs: number, into: string[]): void {
    const at = round(atUs - this.#startUs);
    this.#nameTrack(tracks.cycles, trackNames[tracks.cycles] as string, into);
    into.push(
      `{"name":"EVENTS_DROPPED","ph":"i","s":"p","ts":${at},"pid":${this.#pid},"tid":${tracks.cycles},"args":{"events":${records}}}`,
    );
  }

  #learn(words: Float64Array, into: string[]): void {
    const id = words[1] as number;
    const text = textOf(words);
    if (id !== 0) {
      this.#texts.set(id, { quoted: JSON.stringify(text), text });
      return;
    }
    if (this.#hello !== undefined) return;
    this.#hello = JSON.parse(text) as Hello;
    const { rank, host, pid } = this.#hello;
    this.#pid = processOf(rank);
    const name = JSON.stringify(`rank ${rank} (${host}, pid ${pid})`);
    this.#tell(
      `{"name":"process_name","ph":"M","ts":0,"pid":${this.#pid},"tid":0,"args":{"name":${name}}}`,
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
    const over = (words[6] as number) + shift;
    const { lane, free } = this.#laneFor(Math.min((words[4] as number) + shift, over), over);
    const submitted = clamp((words[4] as number) + shift, Math.min(free, over), over);
    const left = clamp((words[5] as number) === 0 ? over : (words[5] as number) + shift, submitted, over);
    const nameId = words[1] as number;
    const error = words[7] as number;
    const exchanges = words[8] as number;
    const track = tracks.operations + lane;
    this.#nameTrack(track, lane === 0 ? 'collectives' : `collectives (${lane + 1})`, into);
    const name = nameId === 0 ? JSON.stringify(`${kind}.noname`) : this.#text(nameId).quoted;
    const details =
      members +
      (nameId === 0 ? `,"number":${words[3]}` : '') +
      (error === 0 ? '' : `,"error":${this.#text(error).quoted}`);
    into.push(this.#slice(name, kind, track, submitted, over, details));
    if (left > submitted) into.push(this.#slice('"QUEUE"', kind, track, submitted, left, ''));
    this.#phases(words, shift, { kind, upper, track, left, over, exchanges }, into);
  }

  #phases(
    words: Float64Array,
    shift: number,
    operation: {
      kind: string;
      upper: string;
      track: number;
      left: number;
      over: number;
      exchanges: number;
    },
    into: string[],
  ): void {
    const { kind, upper, track, left, over, exchanges } = operation;
    const marks: { stage: number; at: number }[] = [];
    let last = left;
    for (let i = operationWords; i + 1 < words.length; i += 2) {
      last = clamp((words[i + 1] as number) + shift, last, over);
      marks.push({ stage: words[i] as number, at: last });
    }
    const agreed = marks.findIndex((mark) => mark.stage === stage.agreed);
    const details = exchanges > 0 ? `,"exchanges_of_pending_lists":${exchanges}` : '';
    if (marks.length === 0) {
      // A transport that tells nothing: waiting and working are not told apart.
      if (over > left) into.push(this.#slice(`"${upper}"`, kind, track, left, over, details));
      return;
    }
    const begin = agreed < 0 ? over : (marks[agreed]?.at as number);
    if (begin > left) into.push(this.#slice(`"NEGOTIATE_${upper}"`, kind, track, left, begin, details));
    if (agreed < 0) return;
    into.push(this.#slice(`"${upper}"`, kind, track, begin, over, ''));
    for (let i = agreed + 1; i < marks.length; i++) {
      const { stage: code, at } = marks[i] as { stage: number; at: number };
      const until = marks[i + 1]?.at ?? over;
      const name = stageNames[code] ?? `STAGE_${code}`;
      if (name === '' || until <= at) continue;
      into.push(this.#slice(`"${name}"`, kind, track, at, until, ''));
    }
  }

  #slice(
    name: string,
    category: string,
    track: number,
    fromUs: number,
    toUs: number,
    members: string,
  ): string {
    // What began before the file did begins with it: viewers do not like times below 0.
    const from = round(Math.max(0, fromUs));
    const duration = round(Math.max(0, round(toUs) - from));
    const args = members === '' ? '' : `,"args":{${members.slice(1)}}`;
    return `{"name":${name},"cat":"${category}","ph":"X","ts":${from},"dur":${duration},"pid":${this.#pid},"tid":${track}${args}}`;
  }

  /** Operations come in the order of their ends: a lane is free if what it had last was over before this one began. */
  #laneFor(from: number, to: number): { lane: number; free: number } {
    const lanes = this.#lanes;
    let lane = lanes.findIndex((end) => end <= from);
    if (lane < 0) lane = lanes.length < mostLanes ? lanes.length : lanes.indexOf(Math.min(...lanes));
    const free = lanes[lane] ?? Number.NEGATIVE_INFINITY;
    lanes[lane] = Math.max(to, free);
    return { lane, free };
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

/** `,"a":1,"b":2` of a text that is the members of an object; empty for anything else. */
function membersOf(text: Text): string {
  if (text.members !== undefined) return text.members;
  text.members = '';
  try {
    const value = JSON.parse(`{${text.text}}`) as { kind?: unknown };
    if (text.text !== '') text.members = `,${text.text}`;
    if (typeof value.kind === 'string') text.kind = value.kind;
  } catch {
    // It was cut because of its length.
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

/** To nanoseconds, which is what the clocks know. */
function round(us: number): number {
  return Math.round(us * 1000) / 1000;
}
