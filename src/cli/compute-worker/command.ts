// `horovod compute-worker FILE`: one process of a data service.

import { joinService, runComputeJob } from '../../data/service/compute-job.ts';
import { runComputeWorker, runDispatcher } from '../../data/service/worker-process.ts';
import { HorovodError } from '../../errors.ts';
import { processEnvironment } from '../../settings/environment.ts';
import type { CommandOutput, Subcommand } from '../subcommand.ts';
import { workInElasticJob } from './in-elastic-job.ts';
import { type ComputeWorkerCommand, computeWorkerHelp, parseComputeWorker } from './options.ts';

export const computeWorkerCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const command = parseComputeWorker(argv, processEnvironment());
    if (command === undefined) {
      output.out(computeWorkerHelp);
      return 0;
    }
    const stopping = new AbortController();
    // A second signal ends the process at once.
    const stop = () => {
      for (const signal of signals) process.off(signal, stop);
      stopping.abort();
    };
    for (const signal of signals) process.on(signal, stop);
    try {
      await work(command, stopping.signal, output);
      return 0;
    } catch (error) {
      // It was waiting for something when the signal came.
      if (stopping.signal.aborted && HorovodError.is(error) && error.code === 'ERR_HVD_ABORTED') return 0;
      throw error;
    } finally {
      for (const signal of signals) process.off(signal, stop);
    }
  },
};

const signals = ['SIGTERM', 'SIGINT'] as const;

/** Until the service ends, or this part of it. */
async function work(
  command: ComputeWorkerCommand,
  signal: AbortSignal,
  output: CommandOutput,
): Promise<void> {
  const { modules, threads, memoryBytes, joins } = command;
  const log = (line: string) => output.out(`horovod compute-worker: ${line}\n`);
  const own = { modules, memoryBytes, ...(threads === undefined ? {} : { threads }) };
  const parts = {
    runWorker: (part: Omit<Parameters<typeof runComputeWorker>[0], keyof typeof own>) =>
      runComputeWorker({ ...part, ...own }),
    runDispatcher,
  };
  const join = (until: AbortSignal) => joinService({ path: command.path, signal: until, parts, log });
  const runRank = (rank: number, size: number, until: AbortSignal) =>
    runComputeJob({ ...command, rank, size, signal: until, parts, log });
  if (joins) await join(signal);
  else if (command.isElastic) await workInElasticJob({ runRank, join }, signal);
  else await runRank(command.rank, command.size, signal);
}
