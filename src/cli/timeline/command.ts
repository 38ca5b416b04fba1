// `horovod timeline report FILE`: where the time went, as text and, if asked, as a page.

import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { htmlReport } from '../../observe/timeline/report/html.ts';
import { printReport } from '../../observe/timeline/report/print.ts';
import { readTrace, type TraceEnd, TraceFileError } from '../../observe/timeline/report/read-trace.ts';
import { SummaryBuilder, type TraceSummary } from '../../observe/timeline/report/summary.ts';
import type { CommandOutput } from '../subcommand.ts';

export const timelineHelp = `usage: horovod timeline report FILE [--html OUT.html] [--json]

Says where the time of a timeline went: for each rank compute, exposed communication and waiting for other ranks; the
slowest rank; the operations that took longest; the largest tensors. FILE is what --timeline-filename or startTimeline()
wrote; it opens in chrome://tracing and https://ui.perfetto.dev too.

  --html OUT.html   also writes a page with a picture, which needs nothing else
  --json            prints figures as JSON instead
`;

export const timelineCommand: { run(argv: readonly string[], output: CommandOutput): Promise<number> } = {
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

/** A text: what is wrong with the call. */
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
      return `expected "report FILE"${verb === undefined ? '' : `, not "${verb}"`}; see horovod timeline --help.`;
    if (file === undefined) return 'report: which file? See horovod timeline --help.';
    if (more.length > 0) return `report: one file at a time, not also ${more.join(', ')}.`;
    return { file, html, json, help };
  } catch (error) {
    return `${(error as Error).message.split('.')[0]}; see horovod timeline --help.`;
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
      `horovod timeline report: ${file} is a trace of something else: none of its ${end.events} events are of a rank. ` +
        'Timelines come from --timeline-filename or startTimeline().\n',
    );
    return 1;
  }
  if (!end.isWhole) {
    output.error(`horovod timeline report: the end of ${file} is missing; this is what is there.\n`);
  }
  output.out(json ? `${JSON.stringify(figuresOf(summary))}\n` : printReport(summary));
  if (html === undefined) return 0;
  try {
    writeFileSync(html, htmlReport(summary, `Timeline ${basename(file)}`));
  } catch (error) {
    output.error(`horovod timeline report: cannot write ${html}: ${(error as Error).message}\n`);
    return 1;
  }
  if (!json) output.out(`\nWritten: ${html}\n`);
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
