// The dashboard of a job, in its launcher: a web server whose page shows what the ranks do and print. Ranks know nothing of it. Starting it may fail, with a message; once it runs, nothing of it can harm the job.

import { defaultMemoryDirectory } from '../../control/memory-file.ts';
import { Dashboard, type DashboardControl } from '../../observe/dashboard/dashboard.ts';
import { launcherRank } from '../../observe/dashboard/log-ring.ts';
import type { JobFacts } from '../../observe/dashboard/messages.ts';
import { JobSearch } from '../../observe/dashboard/sampler.ts';
import { DashboardServer } from '../../observe/dashboard/server.ts';
import { secondsText } from '../../observe/status/rank-words.ts';
import { shortJobId } from '../../rendezvous/short-job-id.ts';
import { packageVersion } from '../../settings/package.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import type { OutputLine } from '../output/line-reader.ts';
import { saveDashboard } from './announce.ts';
import { flightReport } from './flight-report.ts';
import { type RecordableJob, Recordings } from './recordings.ts';

export interface JobDashboardRequest {
  readonly command: readonly string[];
  /** 0: any free one. */
  readonly port: number;
  /** Default: loopback. */
  readonly bind?: string | undefined;
  /** More names by which browsers may call it. */
  readonly hosts?: readonly string[] | undefined;
  /** Whether the page may stop the job, and record timelines. */
  readonly hasControl: boolean;
  /** How many ranks there may be. */
  readonly ranks: number;
  readonly settings?: JobFacts['settings'] | undefined;
  /** HOROVOD_FLIGHT_DIR */
  readonly flightDirectory?: string | undefined;
  /** Where memory files are created. */
  readonly memoryDirectory?: string | undefined;
  /** What asked for it, for errors. Default: '--dashboard'. */
  readonly flag?: string | undefined;
}

/** A job that is looked at. Job, ElasticJob and MpirunJob are. */
export interface ShownJob extends RecordableJob {
  /** Of a job that cannot be looked at by itself: mpirun starts its ranks. */
  readonly jobId?: string | undefined;
  interrupt(signal: NodeJS.Signals): void;
}

export class JobDashboard {
  readonly #request: JobDashboardRequest;
  readonly #dashboard: Dashboard;
  readonly #server: DashboardServer;
  readonly #seen: Seen;
  readonly #recordings: Recordings;
  readonly #startedAt = Date.now();
  #lastSaid = '';

  private constructor(request: JobDashboardRequest, { dashboard, server, seen, recordings }: Parts) {
    this.#request = request;
    this.#dashboard = dashboard;
    this.#server = server;
    this.#seen = seen;
    this.#recordings = recordings;
  }

  /** Throws ERR_HVD_SETTING if the port cannot be used. */
  static async start(request: JobDashboardRequest): Promise<JobDashboard> {
    const { command, port, bind, hosts, hasControl, ranks, settings = [], flag = '--dashboard' } = request;
    const seen: Seen = { job: undefined, search: undefined, onStop: () => undefined };
    const control: DashboardControl = {
      stop() {
        seen.onStop();
        seen.job?.interrupt('SIGTERM');
      },
      record: (steps) => recordings.record(steps),
    };
    const dashboard = new Dashboard({
      facts: {
        id: '',
        command: command.join(' '),
        startedAt: Date.now(),
        hosts: [],
        settings,
        versions: [
          { name: 'horovod', value: packageVersion() },
          { name: 'Node', value: process.versions.node },
          { name: 'system', value: `${process.platform} ${process.arch}` },
        ],
        links: [],
      },
      look: () => seen.job?.look?.() ?? seen.search?.look(),
      ranks,
      control: hasControl ? control : undefined,
    });
    const recordings = new Recordings(
      () => seen.job,
      (event) => dashboard.note(event),
    );
    try {
      const extraFile = (name: string) => recordings.file(name);
      const server = await DashboardServer.listen(dashboard, { port, bind, hosts, flag, extraFile });
      return new JobDashboard(request, { dashboard, server, seen, recordings });
    } catch (error) {
      dashboard.close();
      throw error;
    }
  }

  /** With the token that opens it. */
  get url(): string {
    return this.#server.url;
  }

  get port(): number {
    return this.#server.port;
  }

  /** The job that it shows from now on. `onStop`: the page is about to stop it. */
  show(job: ShownJob, onStop: () => void): void {
    this.#seen.job = job;
    this.#seen.onStop = onStop;
    this.#dashboard.look();
    const { jobId } = job;
    if (job.look !== undefined || jobId === undefined) return;
    const id = shortJobId(jobId);
    const directory = this.#request.memoryDirectory ?? defaultMemoryDirectory();
    this.#seen.search = new JobSearch({ directory, isWanted: (view) => view.id === id });
  }

  link(title: string, url: string): void {
    const { links } = this.#dashboard.facts;
    this.#dashboard.learn({ links: [...links.filter((link) => link.title !== title), { title, url }] });
  }

  /** What the launcher prints. */
  said(text: string): void {
    this.#lastSaid = text;
    for (const line of text.split('\n')) this.#dashboard.logs.add(launcherRank, 'stderr', line);
  }

  /** Where ranks are to run. */
  planned(slots: readonly Slot[]): void {
    const byHost = new Map<string, number>();
    for (const { hostname } of slots) byHost.set(hostname, (byHost.get(hostname) ?? 0) + 1);
    this.#dashboard.learn({ hosts: [...byHost].map(([host, count]) => ({ host, slots: count })) });
  }

  /** A rank has printed a line. */
  line({ rank, stream, text }: OutputLine): void {
    this.#dashboard.logs.add(rank, stream, text);
  }

  /** The job has ended with this exit code. `why`: it has failed. Default: what the launcher has said last. */
  finish(exitCode: number, why: string = this.#lastSaid): void {
    const took = secondsText(Date.now() - this.#startedAt);
    const isSuccess = exitCode === 0;
    const text = isSuccess
      ? `All ranks have finished after ${took}.`
      : causeFirst(why) || `The job has failed after ${took} with exit code ${exitCode}.`;
    this.#dashboard.look();
    if (!isSuccess) this.#noteFlight();
    this.#dashboard.finish({ at: Date.now(), isSuccess, text });
  }

  #noteFlight(): void {
    const { flightDirectory: given } = this.#request;
    const { id: job } = this.#dashboard.facts;
    const report = flightReport({ given, job, sinceMs: this.#startedAt });
    if (report === undefined) return;
    this.#dashboard.note({
      kind: 'lost',
      tone: 'bad',
      text: 'Flight report: what the ranks did last',
      report,
    });
  }

  /** Writes the page into one file, or says why that cannot be done. */
  save(file: string, say: (text: string) => void): Promise<void> {
    return saveDashboard(this.#dashboard, file, say);
  }

  /** Browsers get the last message; then the port is free. */
  async close(): Promise<void> {
    this.#recordings.close();
    this.#seen.search?.close();
    await this.#server.close();
    this.#dashboard.close();
  }
}

/** The first line of a failure report becomes the headline of the page: it names the rank and its error. */
export function causeFirst(report: string): string {
  const [title = '', cause, ...rest] = report.split('\n');
  if (cause === undefined || !title.endsWith('First failure:')) return report;
  const [error] = rest
    .slice(0, 2)
    .flatMap((line) => /^\s+(\w*(?:Error|Exception)\b.*)/.exec(line)?.[1] ?? []);
  return [error === undefined ? cause.trim() : `${cause.trim()}: ${error}`, ...rest].join('\n');
}

interface Parts {
  readonly dashboard: Dashboard;
  readonly server: DashboardServer;
  readonly seen: Seen;
  readonly recordings: Recordings;
}

interface Seen {
  job: ShownJob | undefined;
  search: JobSearch | undefined;
  onStop: () => void;
}
