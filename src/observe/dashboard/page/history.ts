// All that the page knows of the job, from the events of its stream. The page may stay open for days, so everything has a limit:
// older samples are thinned out, old lines are dropped (the server has them), old news too.

import type {
  DashboardEvents,
  DashboardStart,
  JobEnd,
  JobEvent,
  JobFacts,
  LogLine,
  Sample,
} from '../messages.ts';

export interface HistoryLimits {
  /** Ranks of all samples together. */
  readonly rankSamples: number;
  readonly lines: number;
  /** Characters of all lines together. */
  readonly characters: number;
  readonly news: number;
}

const defaultLimits: HistoryLimits = {
  rankSamples: 60_000,
  lines: 20_000,
  characters: 8_000_000,
  news: 1000,
};
const minSamples = 240;
const maxSamples = 1800;

export class History {
  readonly #limits: HistoryLimits;
  #characters = 0;

  job: JobFacts | undefined;
  hasControl = false;
  canRecord = false;
  logsMissing: string | undefined;
  samples: Sample[] = [];
  news: JobEvent[] = [];
  logs: LogLine[] = [];
  end: JobEnd | undefined;
  /** Counts what `start` has replaced: a view that shows anything older begins anew. */
  beginnings = 0;
  /** Count changes, so that nothing is drawn again for nothing. */
  sampleChanges = 0;
  newsChanges = 0;

  constructor(limits: Partial<HistoryLimits> = {}) {
    this.#limits = { ...defaultLimits, ...limits };
  }

  get latest(): Sample | undefined {
    return this.samples.at(-1);
  }

  apply<K extends keyof DashboardEvents>(name: K, event: DashboardEvents[K]): void;
  apply(name: keyof DashboardEvents, event: unknown): void {
    if (name !== 'news' && name !== 'logs') this.sampleChanges += 1;
    if (name === 'news' || name === 'start') this.newsChanges += 1;
    if (name === 'start') this.#start(event as DashboardStart);
    else if (name === 'sample') this.#addSample(event as Sample);
    else if (name === 'logs') this.#addLogs(event as readonly LogLine[]);
    else if (name === 'news') this.#addNews(event as readonly JobEvent[]);
    else this.end = event as JobEnd;
  }

  #start(start: DashboardStart): void {
    this.job = start.job;
    this.hasControl = start.hasControl;
    this.canRecord = start.hasControl && start.canRecord === true;
    this.logsMissing = start.logsMissing;
    this.end = start.end;
    this.samples = [];
    this.news = [];
    this.logs = [];
    this.#characters = 0;
    this.beginnings += 1;
    for (const sample of start.samples) this.#addSample(sample);
    this.#addNews(start.news);
    this.#addLogs(start.logs);
  }

  #addSample(sample: Sample): void {
    const last = this.samples.at(-1);
    if (last !== undefined && sample.at <= last.at) return;
    this.samples.push(sample);
    const byRanks = Math.floor(this.#limits.rankSamples / Math.max(1, sample.ranks.length));
    const limit = Math.min(maxSamples, Math.max(minSamples, byRanks));
    if (this.samples.length > limit) this.samples = thinned(this.samples);
  }

  #addLogs(lines: readonly LogLine[]): void {
    const newest = this.logs.at(-1)?.id ?? Number.NEGATIVE_INFINITY;
    for (const line of lines) {
      if (line.id <= newest) continue;
      this.logs.push(line);
      this.#characters += line.text.length;
    }
    const { lines: maxLines, characters } = this.#limits;
    let drop = Math.max(0, this.logs.length - maxLines);
    for (let at = 0; at < drop; at++) this.#characters -= this.logs[at]?.text.length ?? 0;
    while (this.#characters > characters && drop < this.logs.length - 1) {
      this.#characters -= this.logs[drop]?.text.length ?? 0;
      drop += 1;
    }
    if (drop > 0) this.logs.splice(0, drop);
  }

  /** An event may come again with more in it, such as the report. */
  #addNews(news: readonly JobEvent[]): void {
    for (const each of news) {
      const known = this.news.findIndex(({ id }) => id === each.id);
      if (known < 0) this.news.push(each);
      else this.news[known] = each;
    }
    this.news.splice(0, Math.max(0, this.news.length - this.#limits.news));
  }
}

/** Without every second one of the older half. The first stays. */
export function thinned<T>(list: readonly T[]): T[] {
  const half = Math.floor(list.length / 2);
  return list.filter((_, at) => at >= half || at % 2 === 0);
}
