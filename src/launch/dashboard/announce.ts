// What users are told about a dashboard that has started, and its page as a file.

import { writeFile } from 'node:fs/promises';
import { startBrowser } from '../../console/browser.ts';
import type { Dashboard } from '../../observe/dashboard/dashboard.ts';
import { savedPage } from '../../observe/dashboard/saved-page.ts';
import { pathThroughJupyterHub } from '../job-parts/jupyter-hub.ts';

export interface Announcement {
  /** With the token. */
  readonly url: string;
  readonly port: number;
  readonly bind: string | undefined;
  readonly hasControl: boolean;
  /** Open a browser. */
  readonly opens: boolean;
  readonly environment: NodeJS.ProcessEnv;
  readonly say: (text: string) => void;
}

const loopback = /^(127\.\d+\.\d+\.\d+|::1|localhost)$/;

export function announce({ url, port, bind, hasControl, opens, environment, say }: Announcement): void {
  say(`Dashboard: ${url}`);
  if (bind !== undefined && !loopback.test(bind))
    say(
      `Other machines can reach the dashboard at ${bind}, without encryption: whoever reads along in the network sees what it shows${hasControl ? ', and can stop the job' : ''}.`,
    );
  const hubPath = pathThroughJupyterHub(port, environment);
  if (hubPath !== undefined)
    say(
      `Behind JupyterHub, with jupyter-server-proxy: ${hubPath}${new URL(url).search}. The name of the hub must be given with --dashboard-host.`,
    );
  if (opens) startBrowser(url, environment, (reason) => say(`--open has no effect: ${reason}.`));
}

/** Writes the page into one file, or says why that cannot be done. */
export async function saveDashboard(
  dashboard: Dashboard,
  file: string,
  say: (text: string) => void,
): Promise<void> {
  try {
    await writeFile(file, savedPage(dashboard.state()));
    say(`The dashboard is saved in ${file}.`);
  } catch (error) {
    say(`The dashboard cannot be saved in ${file}: ${(error as Error).message}.`);
  }
}
