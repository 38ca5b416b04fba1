// What runs beside a job of launch(), and is linked in its box: TensorBoard and the dashboard. Both end with the job.

import { processEnvironment } from '../../settings/environment.ts';
import type { JobDashboard, ShownJob } from '../dashboard/job-dashboard.ts';
import { pathThroughJupyterHub } from '../job-parts/jupyter-hub.ts';
import type { OutputLine } from '../output/line-reader.ts';
import type { PlannedLaunch } from '../run/plan-launch.ts';
import { rankElsewhereText } from '../tensorboard/rank-elsewhere.ts';
import type { TensorBoardProcess } from '../tensorboard/tensorboard-process.ts';
import type { Link } from './job-progress.ts';

export interface CompanionsRequest {
  readonly planned: PlannedLaunch;
  /** How many ranks there are. */
  readonly size: number;
  /** Undefined: where it is installed. */
  readonly tensorboard: boolean | string | undefined;
  /** A port: 0 is any free one. */
  readonly dashboard: boolean | number | undefined;
  readonly say: (text: string) => void;
  readonly onLink: (link: Link) => void;
}

export class Companions {
  readonly #dashboard: JobDashboard | undefined;
  readonly #tensorboard: TensorBoardProcess | undefined;

  private constructor(dashboard: JobDashboard | undefined, tensorboard: TensorBoardProcess | undefined) {
    this.#dashboard = dashboard;
    this.#tensorboard = tensorboard;
  }

  /** Throws ERR_HVD_SETTING if the port of the dashboard cannot be used. */
  static async start(request: CompanionsRequest): Promise<Companions> {
    const dashboard = await startDashboard(request);
    return new Companions(dashboard, await startTensorBoard(request, dashboard));
  }

  show(job: ShownJob): void {
    this.#dashboard?.show(job, () => this.#dashboard?.said('the page of the dashboard stops the job.'));
  }

  line(line: OutputLine): void {
    this.#dashboard?.line(line);
  }

  said(text: string): void {
    this.#dashboard?.said(text);
  }

  finish(exitCode: number): void {
    this.#dashboard?.finish(exitCode);
  }

  async close(): Promise<void> {
    await Promise.all([this.#dashboard?.close(), this.#tensorboard?.stop()]);
  }
}

async function startDashboard({
  planned,
  size,
  dashboard: wanted,
  onLink,
}: CompanionsRequest): Promise<JobDashboard | undefined> {
  if (wanted === undefined || wanted === false) return undefined;
  const { JobDashboard } = await import('../dashboard/job-dashboard.ts');
  const { command, settings } = planned.launch;
  const dashboard = await JobDashboard.start({
    command,
    port: wanted === true ? 0 : wanted,
    // Whoever can open the page runs this notebook.
    hasControl: true,
    ranks: Math.max(size, settings.maxProcesses ?? 0),
    flag: 'launch: dashboard',
  });
  if (planned.kind === 'fixed') dashboard.planned(planned.launch.plan.slots);
  onLink({ title: 'Dashboard', url: dashboard.url });
  return dashboard;
}

async function startTensorBoard(
  { planned: { kind, launch }, tensorboard: wanted, say, onLink }: CompanionsRequest,
  dashboard: JobDashboard | undefined,
): Promise<TensorBoardProcess | undefined> {
  if (wanted === false) return undefined;
  const { TensorBoardProcess } = await import('../tensorboard/tensorboard-process.ts');
  const { tensorboardCommand: command, tensorboardDir: dir } = launch.settings;
  const elsewhere = kind === 'fixed' ? rankElsewhereText(launch.plan, dir) : undefined;
  if (elsewhere !== undefined && wanted !== undefined) say(elsewhere);
  return TensorBoardProcess.start({
    command,
    dir,
    port: 0,
    environment: launch.driverEnvironment,
    say,
    isOptional: wanted === undefined,
    onUrl(url) {
      for (const link of tensorBoardLinks(url)) onLink(link);
      dashboard?.link('TensorBoard', url);
    },
  });
}

export function tensorBoardLinks(url: string, environment: NodeJS.ProcessEnv = processEnvironment()): Link[] {
  const direct = { title: 'TensorBoard', url };
  const hubPath = pathThroughJupyterHub(new URL(url).port, environment);
  return hubPath === undefined
    ? [direct]
    : [{ title: 'TensorBoard through JupyterHub', url: hubPath }, direct];
}
