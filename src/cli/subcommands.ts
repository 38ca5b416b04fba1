// The subcommands of `horovod`. Each is loaded when it is asked for: `horovod status` needs no report writer.

import type { CommandOutput, Subcommand } from './subcommand.ts';

export const subcommands: readonly Subcommand[] = [
  lazy('status', 'show what the ranks of running jobs are doing', async () => {
    return (await import('./status/command.ts')).statusCommand;
  }),
  lazy('timeline', 'report where the time of a timeline went', async () => {
    return (await import('./timeline/command.ts')).timelineCommand;
  }),
  lazy('flight-report', 'compare what the ranks of a failed job did, and name the culprit', async () => {
    return (await import('./flight-report/command.ts')).flightReportCommand;
  }),
];

function lazy(name: string, about: string, load: () => Promise<Pick<Subcommand, 'run'>>): Subcommand {
  return {
    name,
    about,
    run: async (argv: readonly string[], output: CommandOutput) => (await load()).run(argv, output),
  };
}
