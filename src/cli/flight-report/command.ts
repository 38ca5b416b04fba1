// `horovod flight-report <directory>`: puts the ranks' flight records together and says what went wrong first.

import { parseArgs } from 'node:util';
import { HorovodError } from '../../errors.ts';
import { analyse } from '../../observe/flight-recorder/report/analyse.ts';
import { loadDumps } from '../../observe/flight-recorder/report/load-dumps.ts';
import {
  doingOf,
  ranksWithoutDump,
  renderReport,
  verdict,
} from '../../observe/flight-recorder/report/render.ts';
import type { Subcommand } from '../subcommand.ts';

const help = `usage: horovod flight-report [--json] DIRECTORY...

Puts together the flight records that the ranks of a job have written (rank-<n>.json), and says which collective was
the first that the ranks did not all ask for alike, which rank is the odd one, and what each rank was doing.

Ranks write them when the job fails or stalls, and at SIGUSR2, into HOROVOD_FLIGHT_DIR (--flight-dir), by default
into horovod-flight-<uid>/<job> in the temporary directory of their host. Ranks of several hosts: name a directory for
each, after copying them here: scp -r host2:DIRECTORY host2

  --json      the same for programs
  -h, --help  this text
`;

export const flightReportCommand: Subcommand = {
  name: 'flight-report',
  about: 'compare what the ranks of a failed job did, and name the culprit',
  async run(argv, output) {
    const { values, positionals } = parse(argv);
    if (values.help) {
      output.out(help);
      return 0;
    }
    if (positionals.length === 0) {
      throw new HorovodError('ERR_HVD_SETTING', 'the directory is missing: where have the ranks written?');
    }
    const { dumps, notes } = loadDumps(positionals);
    const finding = analyse(dumps);
    const report = { dumps, notes, finding };
    if (!values.json) {
      output.out(renderReport(report));
      return 0;
    }
    const ranks = dumps.map((dump) => {
      const { rank, host, pid, reason, error, step, collectives } = dump;
      const [doing, callSite] = doingOf(dump);
      return { rank, host, pid, reason, error, step, collectives, doing, callSite };
    });
    const { job, size } = dumps[0] as (typeof dumps)[number];
    const verdictText = verdict(report).join('\n');
    output.out(
      `${JSON.stringify({ job, size, finding, verdict: verdictText, ranks, ranksWithoutDump: ranksWithoutDump(dumps), notes })}\n`,
    );
    return 0;
  },
};

function parse(argv: readonly string[]): {
  values: { json?: boolean | undefined; help?: boolean | undefined };
  positionals: string[];
} {
  try {
    return parseArgs({
      args: [...argv],
      options: { json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
  } catch (error) {
    throw new HorovodError('ERR_HVD_SETTING', `${(error as Error).message.split('. ')[0]}.`);
  }
}
