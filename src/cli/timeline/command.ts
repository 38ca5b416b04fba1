// `horovod timeline report FILE`: where the time went, as text and on request as an HTML page. `horovod timeline open [FILE]`: that page
// in a browser (open.ts).

import { writeFileSync } from 'node:fs';
import { printReport } from '../../observe/timeline/report/print.ts';
import { pageOf, readReport } from '../../observe/timeline/report/read-report.ts';
import { TraceFileError } from '../../observe/timeline/report/read-trace.ts';
import type { TraceSummary } from '../../observe/timeline/report/summary.ts';
import { portOrAny } from '../../settings/kinds.ts';
import { settingError } from '../../settings/setting.ts';
import { type CommandOutput, parseOptions, type Subcommand } from '../subcommand.ts';
import { newestTimeline, openTimeline } from './open.ts';

export const timelineHelp = `Usage: horovod timeline report FILE [options]
       horovod timeline open [FILE] [options]

report  Show where the time in a timeline went: compute, exposed communication and waiting for each rank; the slowest rank;
        the operations that took longest; the largest tensors.
open    Show the report with the timeline in a browser: zoom, pan, search, and who was late. Without FILE, it takes the newest
        timeline in this directory. It serves the page on this machine only, under a URL that nobody can guess, and ends on
        Ctrl-C, or one minute after the page was closed.

FILE is a timeline from --timeline-filename or startTimeline(). You can also open it in chrome://tracing or
https://ui.perfetto.dev.

Options of report:
  --html OUT.html  Also write the page as one file, which needs neither a server nor the internet
  --json           Print the figures as JSON

Options of open:
  --port PORT      Port of the page (default: a free one)
  --no-browser     Only print the URL
  --speedscope     Open the timeline in Speedscope instead; first install it: npm install speedscope

  -h, --help       Print this help

The exit code is 0, 1 if the timeline cannot be read or shown, or 2 for usage errors.
`;

const options = {
  report: { html: { type: 'string' }, json: { type: 'boolean' } },
  open: { port: { type: 'string' }, 'no-browser': { type: 'boolean' }, speedscope: { type: 'boolean' } },
} as const;

export const timelineCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const { values, positionals } = parseOptions(argv, {
      ...options.report,
      ...options.open,
      help: { type: 'boolean', short: 'h' },
    });
    if (values.help) {
      output.out(timelineHelp);
      return 0;
    }
    const [verb, file, ...more] = positionals;
    if (verb !== 'report' && verb !== 'open')
      throw settingError(
        `expected "report FILE" or "open FILE"${verb === undefined ? '' : `, not "${verb}"`}.`,
      );
    const foreign = Object.keys(options[verb === 'open' ? 'report' : 'open']).find((name) => name in values);
    if (foreign !== undefined) throw settingError(`${verb} has no option --${foreign}.`);
    if (more.length > 0) throw settingError(`${verb}: expected one file; unexpected ${more.join(', ')}.`);
    if (verb === 'open') {
      const port = values.port === undefined ? 0 : portOf(values.port);
      const chosen = file ?? newestTimeline('.');
      const { speedscope = false } = values;
      return orError('open', chosen, output, () =>
        openTimeline({ file: chosen, port, speedscope, startsBrowser: !values['no-browser'] }, output),
      );
    }
    if (file === undefined) throw settingError('report: FILE is missing.');
    return orError('report', file, output, () => report(file, values, output));
  },
};

function portOf(text: string): number {
  const port = portOrAny.parse(text);
  if (port === undefined)
    throw settingError(`--port: expected ${portOrAny.accepts}, not ${JSON.stringify(text)}.`);
  return port;
}

async function orError(
  verb: string,
  file: string,
  output: CommandOutput,
  run: () => Promise<number>,
): Promise<number> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof TraceFileError)) throw error;
    output.error(`horovod timeline ${verb}: cannot read ${file}: ${error.message}\n`);
    return 1;
  }
}

async function report(
  file: string,
  { html, json }: { html?: string | undefined; json?: boolean | undefined },
  output: CommandOutput,
): Promise<number> {
  const found = await readReport(file);
  if (!found.end.isWhole)
    output.error(`horovod timeline report: the end of ${file} is missing. This report covers the rest.\n`);
  output.out(json ? `${JSON.stringify(figuresOf(found.summary))}\n` : printReport(found.summary));
  if (html === undefined) return 0;
  const page = await pageOf(found);
  try {
    writeFileSync(html, page);
  } catch (error) {
    output.error(`horovod timeline report: cannot write ${html}: ${(error as Error).message}\n`);
    return 1;
  }
  if (!json) output.out(`\nWrote ${html}\n`);
  return 0;
}

function figuresOf(summary: TraceSummary): unknown {
  const { startedAt, command, version, ranks, operations, fromUs, toUs } = summary;
  return {
    startedAt: startedAt?.toISOString(),
    command,
    version,
    spanUs: Math.max(0, toUs - fromUs),
    ranks: ranks.map(
      ({
        phases,
        communication,
        waiting,
        picture: _,
        stepSeries: _steps,
        pid: _pid,
        fromUs: from,
        toUs: to,
        ...rank
      }) => ({
        ...rank,
        spanUs: Math.max(0, to - from),
        phasesUs: Object.fromEntries(phases),
        communicationUs: communication.length,
        waitingUs: waiting.length,
      }),
    ),
    operations: operations.slice(0, 100),
  };
}
