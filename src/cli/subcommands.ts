// The subcommands of `horovod`. Each one is loaded only when it is used.

import type { CommandOutput, Subcommand } from './subcommand.ts';

export const subcommands: readonly Subcommand[] = [
  lazy('status', 'Show what the ranks of running jobs are doing', async () => {
    return (await import('./status/command.ts')).statusCommand;
  }),
  lazy('dashboard', 'Show a running job on a web page', async () => {
    return (await import('./dashboard/command.ts')).dashboardCommand;
  }),
  lazy('data', 'Write training data as TFRecord files', async () => {
    return (await import('./data/command.ts')).dataCommand;
  }),
  lazy(
    'compute-worker',
    'Run a worker of a data service, which prepares data for training jobs',
    async () => {
      return (await import('./compute-worker/command.ts')).computeWorkerCommand;
    },
  ),
  lazy('doctor', 'Check this installation, with two ranks over each transport', async () => {
    return (await import('./doctor/command.ts')).doctorCommand;
  }),
  lazy('build', 'Compile the native transports on this machine, with MPI and Gloo', async () => {
    return (await import('./build/command.ts')).buildCommand;
  }),
  lazy('path', 'Print where a file for spark-submit and other programs lies', async () => {
    return (await import('./path/command.ts')).pathCommand;
  }),
  lazy('timeline', 'Show where the time in a timeline went', async () => {
    return (await import('./timeline/command.ts')).timelineCommand;
  }),
  lazy('flight-report', 'Compare what the ranks of a failed job did and find the culprit', async () => {
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
