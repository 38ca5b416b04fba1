// `horovod status`: what the ranks of running jobs are doing, once or again and again.

import { hostname, userInfo } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CommandOutput } from '../cli/subcommand.ts';
import { defaultMemoryDirectory } from '../plane/memory-file.ts';
import { processEnvironment } from '../settings/environment.ts';
import { readSettings } from '../settings/read-settings.ts';
import { type Found, findBlocks } from './find-jobs.ts';
import { type JobView, readJobs } from './job-view.ts';
import { parseStatusOptions, type StatusOptions, statusHelp } from './options.ts';
import { runOverSsh } from './over-ssh.ts';
import { renderJobs } from './table.ts';

const liveSeconds = 2;
/** Cursor to the corner; what is left of the last picture goes after the new one is there. */
const home = '\x1b[H';
const eraseRest = '\x1b[J';
const eraseLine = '\x1b[K';
const eraseScreen = '\x1b[2J';

export const statusCommand: { run(argv: readonly string[], output: CommandOutput): Promise<number> } = {
  async run(argv, output) {
    const options = parseStatusOptions(argv);
    if (options.help) {
      output.out(statusHelp);
      return 0;
    }
    const columns = options.screenColumns ?? (process.stdout.isTTY ? process.stdout.columns : undefined);
    const isTerminal = columns !== undefined;
    const isLive = options.watchSeconds !== undefined || (isTerminal && !options.once && !options.json);
    const watchSeconds = isLive ? (options.watchSeconds ?? liveSeconds) : undefined;
    const screenColumns = isLive && !options.json ? columns : undefined;
    const asked = { ...options, watchSeconds, screenColumns };
    return options.host === undefined
      ? show(asked, output)
      : runOverSsh(
          {
            host: options.host,
            argv: ['status', ...remoteArguments(asked)],
            port: options.sshPort,
            identityFile: options.sshIdentityFile,
            environment: processEnvironment(),
          },
          output,
        );
  },
};

function remoteArguments({ job, json, watchSeconds, screenColumns }: StatusOptions): string[] {
  return [
    ...(watchSeconds === undefined ? ['--once'] : ['--watch', String(watchSeconds)]),
    ...(screenColumns === undefined ? [] : ['--screen-columns', String(screenColumns)]),
    ...(job === undefined ? [] : ['--job', job]),
    ...(json ? ['--json'] : []),
  ];
}

async function show(options: StatusOptions, output: CommandOutput): Promise<number> {
  const { job, json, watchSeconds, screenColumns } = options;
  const directory = readSettings(processEnvironment()).shmDirectory ?? defaultMemoryDirectory();
  for (let looks = 0; ; looks++) {
    const found = findBlocks(directory);
    const jobs = readJobs(found.blocks).filter(({ id }) => job === undefined || id.startsWith(job));
    const now = Date.now();
    if (json) output.out(`${JSON.stringify({ host: hostname(), takenAt: now, jobs })}\n`);
    if (jobs.length === 0) {
      if (looks > 0) {
        if (!json) output.out(`The ${job === undefined ? 'jobs have' : 'job has'} ended.\n`);
        return 0;
      }
      if (!json) output.error(`horovod status: ${noneText(job, found)}\n`);
      return 1;
    }
    if (!json) output.out(pictureOf(jobs, now, screenColumns, looks));
    if (watchSeconds === undefined) return 0;
    await sleep(watchSeconds * 1000);
  }
}

function pictureOf(
  jobs: readonly JobView[],
  now: number,
  screenColumns: number | undefined,
  looks: number,
): string {
  const text = renderJobs(jobs, now);
  if (screenColumns === undefined) return looks === 0 ? text : `\n${new Date(now).toISOString()}\n${text}`;
  // A line that breaks would push the picture up.
  const lines = text.split('\n').map((line) => line.slice(0, screenColumns));
  return (looks === 0 ? eraseScreen : '') + home + lines.join(`${eraseLine}\n`) + eraseRest;
}

function noneText(job: string | undefined, { hidden }: Found): string {
  const whose = `of user ${userName()} on ${hostname()}`;
  const what =
    job === undefined
      ? `no job ${whose} is running.`
      : `no running job ${whose} has an id that begins with ${job}.`;
  const others =
    hidden.length === 0
      ? ''
      : ` Jobs of other users cannot be seen: that of pid ${hidden[0]?.pid} (user number ${hidden[0]?.uid}) may be one.`;
  return `${what}${others} Jobs on other machines: --host NAME.`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container a user may have a number and no name.
    return String(process.getuid?.() ?? '');
  }
}
