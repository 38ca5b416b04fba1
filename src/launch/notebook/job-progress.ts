// What a cell shows of a job: built up from views of the job and lines of its ranks, read as the content of a box. Words and colours are
// those of the dashboard. No output in here.

import { headlineOf, stragglerOf } from '../../observe/dashboard/headline.ts';
import { LogRing } from '../../observe/dashboard/log-ring.ts';
import type { Headline, LogLine, RankSample, Tone } from '../../observe/dashboard/messages.ts';
import { rankSamples } from '../../observe/dashboard/rank-sample.ts';
import type { JobView } from '../../observe/status/job-view.ts';
import { linePrefix } from '../output/prefix-lines.ts';
import { type CurvePoint, CurvePoints } from './curve-points.ts';

export type JobPhase = 'starting' | 'running' | 'done' | 'failed' | 'stopped';

export type RankSquare = Pick<RankSample, 'rank' | 'presence' | 'tone' | 'text'>;

/** All that a box shows. Texts come from ranks and users. */
export interface BoxContent {
  readonly title: string;
  readonly phase: JobPhase;
  readonly headline: Pick<Headline, 'tone' | 'text'> & Partial<Headline>;
  readonly elapsedMs: number;
  /** Of rank 0: names and newest values. */
  readonly metrics: Metrics;
  readonly ranks: readonly RankSquare[];
  /** The metric that is drawn. */
  readonly curve: { readonly name: string; readonly points: readonly CurvePoint[] } | undefined;
  readonly lastLines: readonly LogLine[];
  /** Messages of the launcher. */
  readonly notes: readonly string[];
  readonly links: readonly Link[];
  /** Why it has failed. */
  readonly error?: string | undefined;
}

type Metrics = readonly (readonly [name: string, value: number])[];

export interface Link {
  readonly title: string;
  readonly url: string;
}

const shownLines = 10;
const keptNotes = 4;

export class JobProgress {
  readonly #title: string;
  readonly #size: number;
  readonly #startedAt: number;
  readonly #curve = new CurvePoints();
  readonly #links: Link[] = [];
  readonly #notes: string[] = [];
  readonly logs: LogRing;
  #view: JobView | undefined;
  #curveName = '';
  #end: { readonly phase: EndPhase; readonly at: number; readonly error?: string | undefined } | undefined;

  constructor(title: string, size: number, startedAt: number) {
    this.#title = title;
    this.#size = size;
    this.#startedAt = startedAt;
    this.logs = new LogRing({ ranks: size });
  }

  /** The last one. */
  get view(): JobView | undefined {
    return this.#view;
  }

  see(view: JobView): void {
    this.#view = view;
    const status = view.ranks.find(({ status }) => status?.metrics !== undefined)?.status;
    const [name, value] = drawn(status?.metrics ?? []) ?? [];
    if (status === undefined || name === undefined || value === undefined) return;
    if (name !== this.#curveName) this.#curve.clear();
    this.#curveName = name;
    this.#curve.add(status.step, value);
  }

  note(text: string): void {
    this.#notes.push(text);
    if (this.#notes.length > keptNotes) this.#notes.shift();
  }

  link(link: Link): void {
    this.#links.push(link);
  }

  /** `error`: why it has failed. */
  end(phase: EndPhase, at: number, error?: string): void {
    this.#end = { phase, at, error };
    // What they lead to has ended with the job.
    this.#links.length = 0;
  }

  get metrics(): Metrics {
    return this.#view?.ranks.find(({ status }) => status?.metrics !== undefined)?.status?.metrics ?? [];
  }

  elapsedMs(now: number): number {
    return Math.max(0, (this.#end?.at ?? now) - this.#startedAt);
  }

  /** What a rank has printed, or all ranks, with prefixes. */
  logText(rank?: number): string {
    if (rank !== undefined)
      return this.logs
        .linesOf(rank)
        .map(({ text }) => `${text}\n`)
        .join('');
    const ranks = Array.from(
      { length: Math.max(this.#size, this.#view?.ranks.length ?? 0) },
      (_, each) => each,
    );
    const lines = ranks.flatMap((each) => this.logs.linesOf(each)).sort((a, b) => a.id - b.id);
    return lines.map((line) => `${linePrefix(line.rank, line.stream)}${line.text}\n`).join('');
  }

  content(now: number): BoxContent {
    const end = this.#end;
    const lastLines = this.logs.newest(shownLines);
    // Of ranks that mpirun starts there is no view, but output.
    const isRunning = this.#view !== undefined || lastLines.length > 0;
    const known = this.#view === undefined ? undefined : headlineOf(this.#view, { now });
    const headline = known ?? {
      tone: 'idle',
      text: isRunning ? 'running' : 'starting',
    };
    return {
      title: this.#title,
      phase: end?.phase ?? (isRunning ? 'running' : 'starting'),
      headline: end === undefined ? headline : { ...headline, ...endings[end.phase] },
      elapsedMs: this.elapsedMs(now),
      metrics: this.metrics,
      ranks: this.#squares(now),
      curve:
        this.#curve.points.length === 0 ? undefined : { name: this.#curveName, points: this.#curve.points },
      lastLines,
      notes: this.#notes,
      links: this.#links,
      error: end?.error,
    };
  }

  #squares(now: number): readonly RankSquare[] {
    const view = this.#view;
    if (view !== undefined) return rankSamples(view, now, stragglerOf(view, now)?.rank);
    const presence = this.#end?.phase === 'done' ? 'left' : 'starting';
    const text = presence === 'left' ? 'done' : 'nothing is known of it';
    return Array.from({ length: this.#size }, (_, rank) => ({ rank, presence, tone: 'idle', text }));
  }
}

type EndPhase = 'done' | 'failed' | 'stopped';

const endings: Record<EndPhase, { readonly tone: Tone; readonly text: string }> = {
  done: { tone: 'good', text: 'done' },
  failed: { tone: 'bad', text: 'failed' },
  stopped: { tone: 'slow', text: 'stopped' },
};

/** The loss, or what is most like it. */
function drawn(metrics: Metrics): Metrics[number] | undefined {
  return (
    metrics.find(([name]) => name === 'loss') ?? metrics.find(([name]) => /loss/i.test(name)) ?? metrics[0]
  );
}
