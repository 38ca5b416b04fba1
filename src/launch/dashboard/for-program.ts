// The dashboard of a job that a program starts, with run() or launch(): it begins before the job, gets what ranks print, and ends with it.

import type { Launch } from '../job-request.ts';
import { JobDashboard } from './job-dashboard.ts';

export interface DashboardChoice {
  /** Default: any free one. */
  readonly port?: number | undefined;
  /** More names by which browsers may call it, such as that of a JupyterHub. */
  readonly hosts?: readonly string[] | undefined;
  /** Whether the page may stop the job and record timelines. Default: false. */
  readonly control?: boolean | undefined;
}

export interface ProgramDashboard<T> {
  readonly dashboard: JobDashboard;
  /** The launch to start: it tells the dashboard what ranks print and what the launcher says. */
  readonly launch: T;
}

type Told = Pick<Launch, 'say' | 'onLine' | 'settings' | 'options'> & { readonly plan?: Launch['plan'] };

/** `title`: what the page calls the job. `caller`: 'run' or 'launch'. Throws ERR_HVD_SETTING if the port cannot be used. */
export async function startProgramDashboard<T extends Told>(
  launch: T,
  { port = 0, hosts, control = false }: DashboardChoice,
  { title, caller }: { readonly title: string; readonly caller: string },
): Promise<ProgramDashboard<T>> {
  const { options, settings, plan } = launch;
  const dashboard = await JobDashboard.start({
    command: [title],
    port,
    hosts,
    hasControl: control,
    ranks: Math.max(settings.maxProcesses ?? 0, options.processes ?? 1),
    flag: `${caller}: dashboard`,
    flightDirectory: settings.flightDirectory,
    memoryDirectory: settings.shmDirectory,
  });
  if (plan !== undefined) dashboard.planned(plan.slots);
  const say = (text: string) => {
    launch.say(text);
    dashboard.said(text);
  };
  const onLine: Launch['onLine'] = (line) => {
    launch.onLine?.(line);
    dashboard.line(line);
  };
  return { dashboard, launch: { ...launch, say, onLine } };
}
