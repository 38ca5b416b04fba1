// `horovod timeline report FILE`: where the time went, as text and on request as an HTML page.

import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { htmlReport } from '../../observe/timeline/report/html.ts';
import { printReport } from '../../observe/timeline/report/print.ts';
import { readTrace, type TraceEnd, TraceFileError } from '../../observe/timeline/report/read-trace.ts';
import { SummaryBuilder, type TraceSummary } from '../../observe/timeline/report/summary.ts';
import type { CommandOutput, Subcommand } from '../subcommand.ts';

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
    const asked = parse(argv);
    if (typeof asked === 'string') {
      output.error(`horovod timeline: ${asked}\n`);
      return 2;
    }
    if (asked.help) {
      output.out(timelineHelp);
      return 0;
    }
    return report(asked.file, asked, output);
  },
};

interface Asked {
  readonly file: string;
  readonly html: string | undefined;
  readonly json: boolean;
  readonly help: boolean;
}

/** A string says what is wrong with the arguments. */
function parse(argv: readonly string[]): Asked | string {
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: { html: { type: 'string' }, json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
    });
    const { html, json = false, help = false } = values;
    const [verb, file, ...more] = positionals;
    if (help) return { file: '', html: undefined, json: false, help };
    if (verb !== 'report')
      return `expected "report FILE"${verb === undefined ? '' : `, not "${verb}"`}. See \`horovod timeline --help\`.`;
    if (file === undefined) return 'report: FILE is missing. See `horovod timeline --help`.';
    if (more.length > 0) return `report: expected one file; unexpected ${more.join(', ')}.`;
    return { file, html, json, help };
  } catch (error) {
    return `${(error as Error).message.split('.')[0]}. See \`horovod timeline --help\`.`;
  }
}

async function report(file: string, { html, json }: Asked, output: CommandOutput): Promise<number> {
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
    writeFileSync(html, htmlReport(summary, `Timeline ${basename(file)}`));
  } catch (error) {
    output.error(`horovod timeline report: cannot write ${html}: ${(error as Error).message}\n`);
    return 1;
  }
  if (!json) output.out(`\nWrote ${html}\n`);
  return 0;
}

function figuresOf({ startedAt, ranks, operations, fromUs, toUs }: TraceSummary): unknown {
  return {
    startedAt: startedAt?.toISOString(),
    spanUs: Math.max(0, toUs - fromUs),
    ranks: ranks.map(({ phases, communication, waiting, picture: _, fromUs: from, toUs: to, ...rank }) => ({
      ...rank,
      spanUs: Math.max(0, to - from),
      phasesUs: Object.fromEntries(phases),
      communicationUs: communication.length,
      waitingUs: waiting.length,
    })),
    operations: operations.slice(0, 100),
  };
}
