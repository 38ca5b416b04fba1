// What runs beside a job of launch(), and is linked in its box: TensorBoard and the dashboard. Both end with the job.

import type { DashboardChoice } from '../dashboard/for-program.ts';
import type { JobDashboard, ShownJob } from '../dashboard/job-dashboard.ts';
import { pathThroughJupyterHub } from '../job-parts/jupyter-hub.ts';
import type { PlannedLaunch } from '../run/plan-launch.ts';
import { rankElsewhereText } from '../tensorboard/rank-elsewhere.ts';
import type { TensorBoardProcess } from '../tensorboard/tensorboard-process.ts';
import type { Link } from './job-progress.ts';

export interface CompanionsRequest {
  readonly planned: PlannedLaunch;
  /** `train.ipynb` */
  readonly title: string;
  /** Undefined: where it is installed. */
  readonly tensorboard: boolean | string | undefined;
  readonly dashboard: boolean | DashboardChoice | undefined;
  readonly say: (text: string) => void;
  readonly onLink: (link: Link) => void;
}

export class Companions {
  /** What is to be started: the dashboard hears of it. */
  readonly planned: PlannedLaunch;
  readonly #dashboard: JobDashboard | undefined;
  readonly #tensorboard: TensorBoardProcess | undefined;

  private constructor(
    planned: PlannedLaunch,
    dashboard: JobDashboard | undefined,
    tensorboard: TensorBoardProcess | undefined,
  ) {
    this.planned = planned;
    this.#dashboard = dashboard;
    this.#tensorboard = tensorboard;
  }

  /** Throws ERR_HVD_SETTING if the port of the dashboard cannot be used. */
  static async start(request: CompanionsRequest): Promise<Companions> {
    const { planned, dashboard } = await withDashboard(request);
    return new Companions(planned, dashboard, await startTensorBoard(request, dashboard));
  }

  /** `onStop`: the page of the dashboard is about to stop the job. */
  show(job: ShownJob, onStop: () => void): void {
    this.#dashboard?.show(job, onStop);
  }

  /** `error`: why it has failed. */
  finish(exitCode: number, error?: string): void {
    this.#dashboard?.finish(exitCode, error);
  }

  async close(): Promise<void> {
    await Promise.all([this.#dashboard?.close(), this.#tensorboard?.stop()]);
  }
}

async function withDashboard({
  planned,
  title,
  dashboard: wanted,
  onLink,
}: CompanionsRequest): Promise<{ planned: PlannedLaunch; dashboard?: JobDashboard }> {
  if (wanted === undefined || wanted === false) return { planned };
  const { startProgramDashboard } = await import('../dashboard/for-program.ts');
  // Whoever can open the page runs this notebook.
  const choice = { control: true, ...(wanted === true ? {} : wanted) };
  const about = { title, caller: 'launch' };
  const { dashboard, launch } = await startProgramDashboard(planned.launch, choice, about);
  for (const link of linksTo('Dashboard', dashboard.url, planned.launch.driverEnvironment)) {
    // It refuses names that it does not know.
    if (choice.hosts !== undefined || link.url === dashboard.url) onLink(link);
  }
  return { planned: { ...planned, launch } as PlannedLaunch, dashboard };
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
      for (const link of linksTo('TensorBoard', url, launch.driverEnvironment)) onLink(link);
      dashboard?.link('TensorBoard', url);
    },
  });
}

/** The address on this machine comes last: behind JupyterHub, the browser cannot reach it. */
export function linksTo(title: string, url: string, environment: NodeJS.ProcessEnv): Link[] {
  const { port, search } = new URL(url);
  const path = pathThroughJupyterHub(port, environment);
  const direct = { title, url };
  if (path === undefined) return [direct];
  return [{ title: `${title} through JupyterHub`, url: `${path}${search}` }, direct];
}
