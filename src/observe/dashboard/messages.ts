// What the dashboard's server sends to its page, as server-sent events with JSON, and what the page asks it to do. Types only: the
// server and the page (page/app.ts) share them. Texts come from ranks and users; the page shows them as text, never as markup.

import type { HostUse } from '../hosts/host-use.ts';

/** Events of the stream by name. `start` comes first, also after a reconnect: it replaces all that the page knows. */
export interface DashboardEvents {
  readonly start: DashboardStart;
  readonly sample: Sample;
  readonly logs: readonly LogLine[];
  readonly news: readonly JobEvent[];
  readonly end: JobEnd;
}

export interface DashboardStart {
  readonly job: JobFacts;
  /** The oldest first; older ones are thinned out. */
  readonly samples: readonly Sample[];
  readonly news: readonly JobEvent[];
  /** The newest lines of all ranks; older ones by GET logs. */
  readonly logs: readonly LogLine[];
  /** Why there are no logs: 'run it with --output-filename to see logs here'. */
  readonly logsMissing?: string | undefined;
  /** May the page record a timeline and stop the job? */
  readonly hasControl: boolean;
  /** May the page record a timeline? Only with control, and where ranks can be reached. */
  readonly canRecord?: boolean | undefined;
  /** Set once the job has ended. */
  readonly end?: JobEnd | undefined;
}

export interface JobFacts {
  readonly id: string;
  readonly command: string;
  /** Date.now() of the server's host. */
  readonly startedAt: number;
  /** Where ranks were to run: name and number of slots; empty if unknown. */
  readonly hosts: readonly { readonly host: string; readonly slots: number }[];
  /** Settings that are not defaults, as on the command line, and versions. Never values of the environment. */
  readonly settings: readonly { readonly name: string; readonly value: string }[];
  readonly versions: readonly { readonly name: string; readonly value: string }[];
  /** Links to TensorBoard and others. */
  readonly links: readonly { readonly title: string; readonly url: string }[];
}

/** One look at the job. */
export interface Sample {
  /** Date.now() of the server's host. */
  readonly at: number;
  readonly headline: Headline;
  readonly ranks: readonly RankSample[];
  readonly hosts: readonly HostUse[];
  /** Of rank 0, by name. NaN and infinite values are texts. */
  readonly metrics: Readonly<Record<string, number | 'NaN' | 'Infinity' | '-Infinity'>>;
  readonly generation?: number | undefined;
}

export type Tone = 'good' | 'slow' | 'bad' | 'idle';

export interface Headline {
  readonly tone: Tone;
  /** 'rank 3 keeps the others waiting, 38 % of a step' */
  readonly text: string;
  readonly step: number;
  /** Of all; undefined if nobody knows. */
  readonly steps?: number | undefined;
  readonly epoch?: number | undefined;
  readonly epochs?: number | undefined;
  readonly secondsLeft?: number | undefined;
  /** Of all ranks together. */
  readonly samplesPerSecond: number;
  /** Communication that computing does not hide: of a step, from 0 to 1; undefined: not known. */
  readonly exposedShare?: number | undefined;
  /** Waiting for data, from 0 to 1; undefined: no pipeline. */
  readonly dataShare?: number | undefined;
}

export interface RankSample {
  readonly rank: number;
  readonly host: string;
  readonly pid: number;
  readonly presence: 'starting' | 'here' | 'left' | 'lost';
  readonly tone: Tone;
  /** Of several lost ranks, the one that has taken the others along. */
  readonly isCause?: true | undefined;
  /** 'trains', 'waits for rank 3 in allreduce "dense/kernel"', 'was killed by SIGKILL' */
  readonly text: string;
  readonly step: number;
  readonly stepMs?: number | undefined;
  /** Waiting for others, and communication in all that was not hidden, per step. */
  readonly waitMs?: number | undefined;
  readonly exposedMs?: number | undefined;
  readonly samplesPerSecond: number;
  /** That it passes to collectives. */
  readonly bytesPerSecond: number;
  /** '25 s': others wait for it; '20 ms/step': how much later than they it arrives. */
  readonly late?: string | undefined;
  /** Its newest collective: 'allreduce "gradients"' */
  readonly last?: string | undefined;
  /** Waiting for data, from 0 to 1; undefined: no pipeline. */
  readonly dataShare?: number | undefined;
  readonly busyCores?: number | undefined;
  readonly rssBytes: number;
  readonly metrics: Readonly<Record<string, number | 'NaN' | 'Infinity' | '-Infinity'>>;
}

export interface LogLine {
  /** Counts up over all ranks. */
  readonly id: number;
  readonly at: number;
  /** -1: of the launcher. */
  readonly rank: number;
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
}

/** What GET logs answers: the newest lines that are asked for, the oldest of them first. */
export interface LogPage {
  readonly lines: readonly LogLine[];
  /** There are older ones that pass. */
  readonly hasMore: boolean;
}

export interface JobEvent {
  readonly id: number;
  readonly at: number;
  readonly kind:
    | 'stall'
    | 'straggler'
    | 'lost'
    | 'reset'
    | 'checkpoint'
    | 'memory'
    | 'data'
    | 'timeline'
    | 'end';
  readonly tone: Tone;
  readonly text: string;
  readonly rank?: number | undefined;
  /** A longer text to fold out, such as a flight report. */
  readonly report?: string | undefined;
  /** A page to open, relative to this one, such as a timeline's picture. */
  readonly href?: string | undefined;
}

export interface JobEnd {
  readonly at: number;
  readonly isSuccess: boolean;
  /** 'All ranks have finished after 2 min 10 s', or the failure report. */
  readonly text: string;
}
