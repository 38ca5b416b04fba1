// `horovod doctor`: what this installation can do, tried with two ranks, and one command for each thing that is missing. The output is
// what a bug report needs; it contains no secrets and no values of the environment but CUDA_VISIBLE_DEVICES.

import { driverSettings } from '../../settings/command-line.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { settingError } from '../../settings/setting.ts';
import { parseOptions, type Subcommand } from '../subcommand.ts';
import { type Finding, renderSection, type Section } from './finding.ts';
import { describeMachine } from './machine.ts';
import { transportsToTry, tryTransport } from './transports.ts';

const help = `Usage: horovod doctor [options]

Check this installation: the machine, the native transports, the frameworks and launchers that it finds, and an allreduce of
two ranks over each transport, with times. For each thing that is missing, the output has a command that installs it. Paste
the output into bug reports.

Options:
  --no-ranks    Do not start ranks
  --timeout S   Give up on a transport after this many seconds (default 60)
  --json        Print the findings as JSON
  -h, --help    Print this help

The exit code is 0, 1 if something that most jobs need does not work, or 2 for usage errors.
`;

export const doctorCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const { values, positionals } = parseOptions(argv, {
      'no-ranks': { type: 'boolean' },
      timeout: { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    });
    if (values.help) {
      output.out(help);
      return 0;
    }
    const [extra] = positionals;
    if (extra !== undefined) throw settingError(`unexpected argument ${JSON.stringify(extra)}.`);
    const seconds = Number(values.timeout ?? '60');
    if (!(seconds > 0))
      throw settingError(`--timeout is "${values.timeout}"; expected a number of seconds > 0.`);
    const env = processEnvironment();
    const settings = driverSettings(env, {});
    const sections: Section[] = [];
    const show = (section: Section) => {
      sections.push(section);
      if (!values.json) output.out(`${renderSection(section)}\n`);
    };
    for (const section of await describeMachine(settings, env)) show(section);
    if (!values['no-ranks']) {
      const hasMpirun = sections.some(({ findings }) =>
        findings.some(({ name, state }) => name === 'mpirun' && state === 'ok'),
      );
      const findings: Finding[] = [];
      for (const transport of transportsToTry(settings, hasMpirun)) {
        findings.push(await tryTransport(transport, AbortSignal.timeout(seconds * 1000)));
      }
      show({ title: 'Two ranks on this machine', findings });
    }
    const failed = sections.flatMap(({ findings }) => findings).filter(({ state }) => state === 'failed');
    if (values.json) output.out(`${JSON.stringify({ sections }, null, 2)}\n`);
    else output.out(verdict(failed));
    return failed.length === 0 ? 0 : 1;
  },
};

function verdict(failed: readonly Finding[]): string {
  if (failed.length === 0) return 'Everything that most jobs need works.\n';
  return `Needs attention: ${failed.map(({ name }) => name).join(', ')}.\n`;
}
