// `horovod flight-report DIRECTORY`: compares the ranks' flight records and says what went wrong first.

import { analyse } from '../../observe/flight-recorder/report/analyse.ts';
import { loadDumps } from '../../observe/flight-recorder/report/load-dumps.ts';
import {
  doingOf,
  ranksWithoutDump,
  renderReport,
  verdict,
} from '../../observe/flight-recorder/report/render.ts';
import { settingError } from '../../settings/setting.ts';
import { parseOptions, type Subcommand } from '../subcommand.ts';

const help = `Usage: horovod flight-report [options] DIRECTORY...

Compare the flight records (rank-<n>.json) of the ranks of a job. The report shows the first collective that not all ranks
called in the same way, which rank is the culprit, and what each rank was doing.

Ranks write flight records when the job fails or stalls, and on SIGUSR2. HOROVOD_FLIGHT_DIR (--flight-dir) sets the
directory; the default is horovod-flight-<uid>/<job> in the temporary directory of each host. If the job had several hosts,
copy the directories of the other hosts (scp -r host2:DIRECTORY host2) and list all of them.

Options:
  --generation N  Of an elastic job: which generation. Default: the last one with flight records
  --json          Print the report as JSON
  -h, --help      Print this help

The exit code is 0, 1 if there are no flight records, or 2 for usage errors.
`;

export const flightReportCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const { values, positionals } = parseOptions(argv, {
      generation: { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    });
    if (values.help) {
      output.out(help);
      return 0;
    }
    if (positionals.length === 0) {
      throw settingError('DIRECTORY is missing.');
    }
    const wanted = values.generation === undefined ? undefined : Number(values.generation);
    if (wanted !== undefined && !(Number.isSafeInteger(wanted) && wanted > 0))
      throw settingError(`--generation is "${values.generation}"; expected an integer ≥ 1.`);
    const { dumps, notes } = loadDumps(positionals, wanted);
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
    const { job, size, generation } = dumps[0] as (typeof dumps)[number];
    const verdictText = verdict(report).join('\n');
    output.out(
      `${JSON.stringify({ job, size, generation, finding, verdict: verdictText, ranks, ranksWithoutDump: ranksWithoutDump(dumps), notes })}\n`,
    );
    return 0;
  },
};
