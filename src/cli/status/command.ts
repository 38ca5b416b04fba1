// `horovod status`: shows what the ranks of running jobs are doing, once or repeatedly.

import { hostname, userInfo } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultMemoryDirectory } from '../../control/memory-file.ts';
import { HorovodError } from '../../errors.ts';
import { type Found, findBlocks } from '../../observe/status/find-jobs.ts';
import { readJobs } from '../../observe/status/job-view.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import type { CommandOutput, Subcommand } from '../subcommand.ts';
import { parseStatusOptions, type Screen, type StatusOptions, statusHelp } from './options.ts';
import { runOverSsh } from './over-ssh.ts';
import { renderService } from './service-table.ts';
import { renderJobs } from './table.ts';

const liveSeconds = 2;
/** The cursor goes to the corner; the rest of the old picture is erased after the new one is drawn. */
const home = '\x1b[H';
const eraseRest = '\x1b[J';
const eraseLine = '\x1b[K';
const eraseScreen = '\x1b[2J';

export const statusCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const options = parseStatusOptions(argv);
    if (options.help) {
      output.out(statusHelp);
      return 0;
    }
    const terminal = options.screen ?? ownScreen();
    const isLive =
      options.watchSeconds !== undefined || (terminal !== undefined && !options.once && !options.json);
    const asked: StatusOptions = {
      ...options,
      watchSeconds: isLive ? (options.watchSeconds ?? liveSeconds) : undefined,
      screen: isLive && !options.json ? terminal : undefined,
    };
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

function remoteArguments({ job, json, watchSeconds, screen }: StatusOptions): string[] {
  return [
    ...(watchSeconds === undefined ? ['--once'] : ['--watch', String(watchSeconds)]),
    ...(screen === undefined ? [] : ['--screen', `${screen.columns}x${screen.rows}`]),
    ...(job === undefined ? [] : ['--job', job]),
    ...(json ? ['--json'] : []),
  ];
}

async function show(options: StatusOptions, output: CommandOutput): Promise<number> {
  if (options.config !== undefined) return showService(options.config, options, output);
  const { job, json, watchSeconds, screen } = options;
  const directory = readSettings(processEnvironment()).shmDirectory ?? defaultMemoryDirectory();
  for (let rounds = 0; ; rounds++) {
    const found = findBlocks(directory);
    const jobs = readJobs(found.blocks).filter(({ id }) => job === undefined || id.startsWith(job));
    const now = Date.now();
    if (json) output.out(`${JSON.stringify({ host: hostname(), takenAt: now, jobs }, namedNumbers)}\n`);
    if (jobs.length === 0) {
      if (rounds > 0) {
        if (!json) output.out(`The ${job === undefined ? 'jobs have' : 'job has'} ended.\n`);
        return 0;
      }
      if (!json) output.error(`horovod status: ${noneText(job, found)}\n`);
      return 1;
    }
    if (!json) output.out(pictureOf(renderJobs(jobs, now), now, screen, rounds));
    if (watchSeconds === undefined) return 0;
    await sleep(watchSeconds * 1000);
  }
}

async function showService(config: string, options: StatusOptions, output: CommandOutput): Promise<number> {
  const { json, watchSeconds, screen } = options;
  const { clientOf, TfDataServiceConfig } = await import('../../data/service/config.ts');
  await using client = clientOf(await TfDataServiceConfig.read(config), config, { isHasty: true });
  for (let rounds = 0; ; rounds++) {
    const status = await client.status().catch((error: unknown) => {
      if (rounds > 0 && HorovodError.is(error) && error.code === 'ERR_HVD_SHUT_DOWN') return undefined;
      throw error;
    });
    if (status === undefined) {
      if (!json) output.out('The data service has ended.\n');
      return 0;
    }
    const now = Date.now();
    if (json) output.out(`${JSON.stringify({ takenAt: now, service: status })}\n`);
    else output.out(pictureOf(renderService(status), now, screen, rounds));
    if (watchSeconds === undefined) return 0;
    await sleep(watchSeconds * 1000);
  }
}

function pictureOf(text: string, now: number, screen: Screen | undefined, rounds: number): string {
  if (screen === undefined) return rounds === 0 ? text : `\n${new Date(now).toISOString()}\n${text}`;
  return (rounds === 0 ? eraseScreen : '') + home + fitted(text, screen).join(`${eraseLine}\n`) + eraseRest;
}

/** Cuts lines that are too long or too many, because they would scroll the picture up. */
export function fitted(text: string, { columns, rows }: Screen): string[] {
  const lines = text.split('\n').map((line) => line.slice(0, columns));
  if (lines.length <= rows) return lines;
  const shown = Math.max(rows - 2, 1);
  const hidden = lines.length - 1 - shown;
  return [...lines.slice(0, shown), `… ${hidden} more lines (--once shows all)`.slice(0, columns), ''];
}

function ownScreen(): Screen | undefined {
  const { isTTY, columns, rows } = process.stdout;
  if (!isTTY) return undefined;
  // A terminal of unknown size counts as large.
  return { columns: columns || 1000, rows: rows || 1000 };
}

function noneText(job: string | undefined, { hidden }: Found): string {
  const id = job === undefined ? '' : ` whose id starts with ${job}`;
  const [other] = hidden;
  const others =
    other === undefined
      ? ''
      : ` You cannot see jobs of other users; process ${other.pid} (uid ${other.uid}) may belong to one.`;
  return `user ${userName()} has no running job on ${hostname()}${id}.${others} To see the jobs of another machine, use --host NAME.`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container, a user may have a number but no name.
    return String(process.getuid?.() ?? '');
  }
}

/** JSON has no NaN: a loss that is not finite is 'NaN', 'Infinity' or '-Infinity'. */
function namedNumbers(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}
