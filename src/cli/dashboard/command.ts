// `horovod dashboard`: the page of a job that is running already, in a process of its own beside it.

import { defaultMemoryDirectory } from '../../control/memory-file.ts';
import { announce, saveDashboard } from '../../launch/dashboard/announce.ts';
import { Dashboard } from '../../observe/dashboard/dashboard.ts';
import type { JobEnd, JobFacts } from '../../observe/dashboard/messages.ts';
import { lostRanks } from '../../observe/dashboard/rank-sample.ts';
import { DashboardServer } from '../../observe/dashboard/server.ts';
import type { JobView } from '../../observe/status/job-view.ts';
import { secondsText } from '../../observe/status/rank-words.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { packageVersion } from '../../settings/package.ts';
import { readSettings } from '../../settings/read-settings.ts';
import type { CommandOutput, Subcommand } from '../subcommand.ts';
import { type FoundJob, findLocalJob, findRemoteJob } from './find-job.ts';
import { type DashboardOptions, dashboardHelp, parseDashboardOptions } from './options.ts';
import { OutputTails } from './tail-output.ts';

const periodMs = 1000;

export const dashboardCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const options = parseDashboardOptions(argv);
    if (options.help) {
      output.out(dashboardHelp);
      return 0;
    }
    const environment = processEnvironment();
    const found =
      options.host === undefined
        ? await findLocalJob(readSettings(environment).shmDirectory ?? defaultMemoryDirectory(), options.job)
        : await findRemoteJob({
            ...options,
            host: options.host,
            environment,
            say: (text) => output.error(text),
          });
    if ('problem' in found) {
      output.error(`horovod dashboard: ${found.problem}\n`);
      return 1;
    }
    try {
      return await serve(found, options, output);
    } finally {
      found.close();
    }
  },
};

async function serve(job: FoundJob, options: DashboardOptions, output: CommandOutput): Promise<number> {
  const { port, bind, names, outputDirectory, save, keep } = options;
  const say = (text: string) => output.out(`${text}\n`);
  const startedAt = Date.now();
  const dashboard = new Dashboard({
    facts: {
      id: job.first.id,
      command: job.first.command,
      startedAt,
      hosts: hostsOf(job.first),
      settings: [],
      versions: [{ name: 'horovod', value: packageVersion() }],
      links: [],
    },
    look: () => job.look(),
    ranks: job.first.ranks.length,
    periodMs,
    ...(outputDirectory === undefined ? { logsMissing } : {}),
  });
  const interrupted = signalled();
  const end = whenOver(job);
  let server: DashboardServer | undefined;
  let tails: OutputTails | undefined;
  try {
    if (outputDirectory !== undefined)
      tails = new OutputTails(outputDirectory, ({ rank, stream, text }) =>
        dashboard.logs.add(rank, stream, text),
      );
    server = await DashboardServer.listen(dashboard, { port, bind, hosts: names, flag: '--port' });
    const { url } = server;
    announce({
      url,
      port: server.port,
      bind,
      hasControl: false,
      opens: options.open,
      environment: processEnvironment(),
      say,
    });
    dashboard.look();
    const wasInterrupted = await Promise.race([interrupted.promise, end.promise]);
    tails?.close();
    tails = undefined;
    if (!wasInterrupted) dashboard.finish(endOf(job.look() ?? job.first, Date.now() - startedAt));
    if (save !== undefined) await saveDashboard(dashboard, save, say);
    if (keep && !wasInterrupted) {
      say(`The job has ended; the page stays at ${url} until Ctrl-C.`);
      await interrupted.promise;
    }
    return 0;
  } finally {
    interrupted.forget();
    end.forget();
    tails?.close();
    await server?.close();
    dashboard.close();
  }
}

function hostsOf({ ranks }: JobView): JobFacts['hosts'] {
  const counts = new Map<string, number>();
  for (const { status } of ranks)
    if (status !== undefined) counts.set(status.host, (counts.get(status.host) ?? 0) + 1);
  return [...counts].map(([host, slots]) => ({ host, slots }));
}

const logsMissing =
  'To see the logs of the ranks here, start the job with horovodrun --dashboard, or with --output-filename DIR and this page with --output-dir DIR.';

/** Resolves to true at the first signal; a second one ends the process as usual. */
function signalled(): { readonly promise: Promise<true>; forget(): void } {
  let receive: () => void = () => undefined;
  const promise = new Promise<true>((resolve) => {
    receive = () => resolve(true);
  });
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.once(signal, receive);
  return {
    promise,
    forget() {
      for (const signal of signals) process.off(signal, receive);
    },
  };
}

/** Resolves to false when no rank runs any more. */
function whenOver(job: FoundJob): { readonly promise: Promise<false>; forget(): void } {
  let timer: NodeJS.Timeout | undefined;
  const promise = new Promise<false>((resolve) => {
    timer = setInterval(() => {
      if (job.isOver()) resolve(false);
    }, periodMs / 2);
  });
  return { promise, forget: () => clearInterval(timer) };
}

function endOf({ ranks, failure }: JobView, tookMs: number): JobEnd {
  const lost = lostRanks({ ranks, failure });
  const at = Date.now();
  if (lost.length === 0) {
    const text = `All ranks have shut down. They were watched for ${secondsText(tookMs)}.`;
    return { at, isSuccess: true, text };
  }
  // The headline of the page is the first line.
  const lines = lost.map(({ rank, end = 'has ended' }) => `rank ${rank} ${end}`);
  return { at, isSuccess: false, text: [...lines, failure ?? []].flat().join('\n') };
}
