// `horovod timeline report FILE`: where the time went, as text and on request as an HTML page.

import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { htmlReport } from '../../observe/timeline/report/html.ts';
import { printReport } from '../../observe/timeline/report/print.ts';
import { readTrace, type TraceEnd, TraceFileError } from '../../observe/timeline/report/read-trace.ts';
import { SummaryBuilder, type TraceSummary } from '../../observe/timeline/report/summary.ts';
import { Zoom } from '../../observe/timeline/report/zoom.ts';
import { settingError } from '../../settings/setting.ts';
import { type CommandOutput, parseOptions, type Subcommand } from '../subcommand.ts';

export const timelineHelp = `Usage: horovod timeline report FILE [options]

Show where the time in a timeline went: compute, exposed communication and waiting for each rank; the slowest rank; the
operations that took longest; the largest tensors. FILE is a timeline from --timeline-filename or startTimeline(). You can
also open it in chrome://tracing or https://ui.perfetto.dev.

Options:
  --html OUT.html  Also write a self-contained HTML page with charts
  --json           Print the figures as JSON
  -h, --help       Print this help

The exit code is 0, 1 if the timeline cannot be read, or 2 for usage errors.
`;

export const timelineCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const { values, positionals } = parseOptions(argv, {
      html: { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    });
    if (values.help) {
      output.out(timelineHelp);
      return 0;
    }
    const [verb, file, ...more] = positionals;
    if (verb !== 'report')
      throw settingError(`expected "report FILE"${verb === undefined ? '' : `, not "${verb}"`}.`);
    if (file === undefined) throw settingError('report: FILE is missing.');
    if (more.length > 0) throw settingError(`report: expected one file; unexpected ${more.join(', ')}.`);
    return report(file, values, output);
  },
};

async function report(
  file: string,
  { html, json }: { html?: string | undefined; json?: boolean | undefined },
  output: CommandOutput,
): Promise<number> {
  const builder = new SummaryBuilder();
  let end: TraceEnd;
  try {
    end = await readTrace(file, (event) => builder.add(event));
  } catch (error) {
    if (!(error instanceof TraceFileError)) throw error;
    output.error(`horovod timeline report: cannot read ${file}: ${error.message}\n`);
    return 1;
  }
  const summary = builder.end();
  if (summary === undefined) {
    output.error(
      `horovod timeline report: ${file} is not a Horovod timeline: none of its ${end.events} events belongs to a rank. ` +
        'Use a file that --timeline-filename or startTimeline() has written.\n',
    );
    return 1;
  }
  if (!end.isWhole) {
    output.error(`horovod timeline report: the end of ${file} is missing. This report covers the rest.\n`);
  }
  output.out(json ? `${JSON.stringify(figuresOf(summary))}\n` : printReport(summary));
  if (html === undefined) return 0;
  try {
    const zoom = Zoom.of(summary);
    if (zoom !== undefined) await readTrace(file, (event) => zoom.add(event));
    writeFileSync(html, htmlReport(summary, `Timeline ${basename(file)}`, zoom));
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
