// All that the dashboard of one job knows, and the stream of what is new: looks at the job once a second, events, lines of logs, and the
// end. The server (server.ts) shows it to browsers. Whoever makes a dashboard says how to look at the job.

import type { JobView } from '../status/job-view.ts';
import { EventFinder, type NewEvent } from './events.ts';
import { headlineOf, stragglerOf } from './headline.ts';
import { History } from './history.ts';
import { LogRing } from './log-ring.ts';
import type {
  DashboardEvents,
  DashboardStart,
  JobEnd,
  JobEvent,
  JobFacts,
  LogLine,
  Sample,
} from './messages.ts';
import { metricsOf, rankSamples } from './rank-sample.ts';

export interface DashboardOptions {
  readonly facts: JobFacts;
  /** Undefined: the job cannot be seen at the moment. */
  readonly look: () => JobView | undefined;
  /** How many ranks share the memory for logs. */
  readonly ranks: number;
  /** Why there are no logs. */
  readonly logsMissing?: string | undefined;
  /** Undefined: the page can only watch. */
  readonly control?: DashboardControl | undefined;
  readonly periodMs?: number | undefined;
}

/** What the page may do to the job. */
export interface DashboardControl {
  stop(): void;
  /** Records a timeline of so many steps; resolves when it has begun. Rejects with a HorovodError that says why not. */
  record?(steps: number): Promise<void>;
}

type StreamEvent = keyof DashboardEvents;

/** `text`: JSON. */
export type StreamListener = (event: StreamEvent, text: string, id: number) => void;

/** Lines go out together, so often. */
const linesEveryMs = 200;
/** At most so many at a time; the page asks for others. */
const maxLinesAtOnce = 500;
/** That `start` brings along. */
const startLines = 500;
const maxEvents = 1000;
/** The pace of the job is measured over this time. */
const paceMs = 120_000;

export class Dashboard {
  readonly logs: LogRing;
  readonly control: DashboardControl | undefined;
  readonly #options: DashboardOptions;
  readonly #history = new History();
  readonly #events: JobEvent[] = [];
  readonly #finder = new EventFinder();
  readonly #listeners = new Set<StreamListener>();
  readonly #timer: NodeJS.Timeout;
  #facts: JobFacts;
  #newLines: LogLine[] = [];
  #linesTimer: NodeJS.Timeout | undefined;
  #steps: { readonly at: number; readonly step: number }[] = [];
  #lastId = 0;
  #lastEventId = 0;
  #end: JobEnd | undefined;
  #lookMs = 0;
  #looks = 0;

  constructor(options: DashboardOptions) {
    this.#options = options;
    this.#facts = options.facts;
    this.control = options.control;
    this.logs = new LogRing({ ranks: options.ranks });
    this.logs.listen((line) => this.#addLine(line));
    this.#timer = setInterval(() => this.look(), options.periodMs ?? 1000).unref();
  }

  get facts(): JobFacts {
    return this.#facts;
  }

  get end(): JobEnd | undefined {
    return this.#end;
  }

  /** What a look costs: the average so far, in milliseconds. */
  get lookMs(): number {
    return this.#looks === 0 ? 0 : this.#lookMs / this.#looks;
  }

  /** Something about the job is known only now, such as its id. Browsers start anew with it. */
  learn(facts: Partial<JobFacts>): void {
    this.#facts = { ...this.#facts, ...facts };
    if (this.#listeners.size > 0) this.#send('start', this.start().text);
  }

  /** Looks at the job now. */
  look(): void {
    if (this.#end !== undefined) return;
    const began = performance.now();
    try {
      const view = this.#options.look();
      if (view !== undefined) this.#see(view, Date.now());
    } catch {
      // The next look may succeed: watching changes nothing.
    }
    this.#lookMs += performance.now() - began;
    this.#looks++;
  }

  note(event: NewEvent): void {
    const whole: JobEvent = { id: ++this.#lastEventId, at: Date.now(), ...event };
    this.#events.push(whole);
    if (this.#events.length > maxEvents) this.#events.shift();
    this.#tell('news', [whole]);
  }

  /** The job is over: its last look stays. */
  finish(end: JobEnd): void {
    if (this.#end !== undefined) return;
    this.look();
    clearInterval(this.#timer);
    this.#end = end;
    this.note({
      kind: 'end',
      tone: end.isSuccess ? 'good' : 'bad',
      text: firstLine(end.text),
      ...(end.text.includes('\n') ? { report: end.text } : {}),
    });
    this.#tellLines();
    this.#tell('end', end);
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#linesTimer);
    this.#listeners.clear();
  }

  /** Returns what ends it. */
  listen(listener: StreamListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** JSON of DashboardStart: all that is known so far, without what listeners are about to hear. */
  start(): { readonly text: string; readonly id: number } {
    this.#tellLines();
    const { samples: _none, ...rest } = this.#startWithout();
    const text = `{"samples":${this.#history.json()},${JSON.stringify(rest).slice(1)}`;
    return { text, id: this.#lastId };
  }

  /** The same as an object. */
  state(): DashboardStart {
    return JSON.parse(this.start().text) as DashboardStart;
  }

  #startWithout(): DashboardStart {
    return {
      job: this.#facts,
      samples: [],
      news: this.#events,
      logs: this.logs.newest(startLines),
      hasControl: this.control !== undefined,
      ...(this.control?.record === undefined ? {} : { canRecord: true }),
      ...(this.#options.logsMissing === undefined ? {} : { logsMissing: this.#options.logsMissing }),
      ...(this.#end === undefined ? {} : { end: this.#end }),
    };
  }

  #see(view: JobView, now: number): void {
    for (const event of this.#finder.look(view, now)) this.note(event);
    // Without a page of a rank, the id is not yet that of the job.
    const isNamed = view.ranks.some(({ status }) => status !== undefined);
    const { id, command } = this.#facts;
    // The command of a job in a container is never known.
    if (isNamed && (id === '' || (command === '' && view.command !== '')))
      this.learn({ id: id || view.id, command: command || view.command });
    const headline = headlineOf(view, { now, stepsPerSecond: this.#pace(view, now) });
    const first = view.ranks.find(({ status }) => (status?.metrics ?? []).length > 0);
    const sample: Sample = {
      at: now,
      headline,
      ranks: rankSamples(view, now, stragglerOf(view, now)?.rank),
      hosts: view.hosts,
      metrics: first === undefined ? {} : metricsOf(first),
      ...(view.generation === undefined ? {} : { generation: view.generation }),
    };
    const text = JSON.stringify(sample);
    this.#history.add(text);
    this.#send('sample', text);
  }

  /** Steps in a second, over the last minutes: what the time left is computed from. */
  #pace({ ranks }: JobView, now: number): number | undefined {
    const step = ranks.find(({ status }) => status !== undefined)?.status?.step;
    if (step === undefined) return undefined;
    // After a reset, it counts from a commit on.
    if (step < (this.#steps.at(-1)?.step ?? 0)) this.#steps = [];
    this.#steps.push({ at: now, step });
    while (now - (this.#steps[0]?.at ?? now) > paceMs) this.#steps.shift();
    // The steps before the first are those of a start, which may have been slow.
    const first = this.#steps.find((each) => each.step > 0);
    if (first === undefined || now - first.at < 2000 || step === first.step) return undefined;
    return (1000 * (step - first.step)) / (now - first.at);
  }

  #addLine(line: LogLine): void {
    this.#newLines.push(line);
    if (this.#newLines.length > maxLinesAtOnce) this.#newLines.shift();
    this.#linesTimer ??= setTimeout(() => this.#tellLines(), linesEveryMs).unref();
  }

  #tellLines(): void {
    clearTimeout(this.#linesTimer);
    this.#linesTimer = undefined;
    if (this.#newLines.length === 0) return;
    const lines = this.#newLines;
    this.#newLines = [];
    this.#tell('logs', lines);
  }

  #tell<E extends Exclude<StreamEvent, 'start'>>(event: E, data: DashboardEvents[E]): void {
    this.#send(event, JSON.stringify(data));
  }

  #send(event: StreamEvent, text: string): void {
    const id = ++this.#lastId;
    for (const listener of [...this.#listeners]) listener(event, text, id);
  }
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
