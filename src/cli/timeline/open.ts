// `horovod timeline open [FILE]`: the report of a timeline in a browser, or the timeline in Speedscope.

import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { startBrowser } from '../../console/browser.ts';
import { HorovodError } from '../../errors.ts';
import { escapeText } from '../../observe/timeline/report/html-charts.ts';
import { pageOf, readReport } from '../../observe/timeline/report/read-report.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { settingError } from '../../settings/setting.ts';
import type { CommandOutput } from '../subcommand.ts';
import { aliveScript, PageServer } from './page-server.ts';

export interface OpenRequest {
  readonly file: string;
  /** 0: any free one. */
  readonly port: number;
  readonly speedscope: boolean;
  readonly startsBrowser: boolean;
}

/** Resolves to the exit code when the user has ended it or closed the page. Throws TraceFileError. */
export async function openTimeline(request: OpenRequest, output: CommandOutput): Promise<number> {
  const { file, port, speedscope, startsBrowser } = request;
  const viewerFolder = speedscope ? findSpeedscope() : undefined;
  const report = await readReport(file);
  const page = speedscope
    ? speedscopePage(basename(file))
    : await pageOf(report, { servedScript: aliveScript });
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  for (const signal of signals) process.once(signal, stop);
  const server = await PageServer.listen({ port, page, file, viewerFolder });
  try {
    output.out(`horovod timeline open: ${file} is at ${server.url} (Ctrl-C ends it)\n`);
    if (startsBrowser) {
      const environment = processEnvironment();
      startBrowser(server.url, environment, (reason) =>
        output.out(
          `horovod timeline open: ${reason}, so open the URL in a browser.${forwardText(server.url, environment)}\n`,
        ),
      );
    }
    const stopped = new Promise<'stopped'>((resolve) => {
      if (stopping.signal.aborted) resolve('stopped');
      else stopping.signal.addEventListener('abort', () => resolve('stopped'), { once: true });
    });
    const reason = await Promise.race([stopped, server.unwatched]);
    if (reason !== 'stopped') output.out('horovod timeline open: nobody looks at the page any more.\n');
    return 0;
  } finally {
    for (const signal of signals) process.off(signal, stop);
    await server.close();
  }
}

/** For who came here by ssh. */
function forwardText(url: string, { SSH_CONNECTION: ssh }: NodeJS.ProcessEnv): string {
  const { port } = new URL(url);
  return ssh
    ? ` On your own machine, first forward the port: ssh -L ${port}:127.0.0.1:${port} ${hostname()}`
    : '';
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** Every timeline begins with an event that has this name. */
const mark = '"horovod timeline"';

/** The timeline in this folder that was written last. */
export function newestTimeline(folder: string): string {
  const found = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.json') && isTimeline(join(folder, entry.name)))
    .map(({ name }) => ({ name, at: statSync(join(folder, name)).mtimeMs }))
    .sort((a, b) => b.at - a.at);
  const [newest] = found;
  if (newest === undefined)
    throw settingError('open: there is no timeline in this directory. Name one: horovod timeline open FILE.');
  return newest.name;
}

function isTimeline(path: string): boolean {
  const head = Buffer.alloc(512);
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    return false;
  }
  try {
    return head.toString('utf8', 0, readSync(file, head, 0, head.length, 0)).includes(mark);
  } finally {
    closeSync(file);
  }
}

/** The folder of its page. It is looked for as the script of a user would: from the current directory. */
function findSpeedscope(): string {
  const places = [pathToFileURL(join(process.cwd(), 'here.js')), import.meta.url];
  for (const place of places) {
    try {
      const manifest = createRequire(place).resolve('speedscope/package.json');
      const folder = join(dirname(manifest), 'dist/release');
      readFileSync(join(folder, 'index.html'));
      return folder;
    } catch {
      // Not there, or another package of this name.
    }
  }
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    '--speedscope: Speedscope is not installed. Install it with `npm install speedscope`, or leave the option out.',
  );
}

/** Speedscope in a frame, in a page of ours that says that somebody looks. */
function speedscopePage(title: string): string {
  const hash = `#profileURL=${encodeURIComponent('../trace.json')}&title=${encodeURIComponent(title)}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${escapeText(title)} – Speedscope</title>
<style>html, body { height: 100%; margin: 0; } iframe { display: block; width: 100%; height: 100%; border: 0; }</style>
</head>
<body>
<iframe src="viewer/index.html${escapeText(hash)}" title="Speedscope"></iframe>
<script type="module">${aliveScript}</script>
</body>
</html>
`;
}
