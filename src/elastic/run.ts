// elastic.run(): in an elastic job, the loop of run-loop.ts; in others, one call of the training function.

import {
  currentGeneration,
  defaultContext,
  elasticWorker,
  isInitialized,
  reform,
  retire,
} from '../context/default/default-context.ts';
import { HorovodError } from '../errors.ts';
import { isElasticWithoutLauncher } from '../rendezvous/join.ts';
import { processEnvironment } from '../settings/environment.ts';
import { readSettings } from '../settings/read-settings.ts';
import { describe } from '../tensor/tensor.ts';
import type { ElasticJob } from './run-loop.ts';
import { runSideOf, type State } from './state.ts';

/** A training function. It is called again after every change of the ranks, with the state of the last commit. */
export type TrainFunction<S extends State, R> = (state: S) => R | Promise<R>;

/**
 * Trains with as many ranks as there are. `train` is called once, and again whenever ranks were lost or are to be added. The
 * promise has its result when it has returned on all ranks. Errors that are no fault of other ranks leave run(). In a job that
 * is not elastic, `train` is called once.
 */
export function run<S extends State, R>(train: TrainFunction<S, R>): (state: S) => Promise<R>;
export function run<S extends State, R>(train: TrainFunction<S, R>, state: S): Promise<R>;
export function run<S extends State, R>(
  train: TrainFunction<S, R>,
  state?: S,
): Promise<R> | ((state: S) => Promise<R>) {
  if (typeof train !== 'function') {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `elastic.run() takes a training function, not ${describe(train)}.`,
    );
  }
  return state === undefined ? (later: S) => runWith(train, later) : runWith(train, state);
}

/** The number of the current membership, from 1; 0 before the first one, and in a job that is not elastic. */
export function generation(): number {
  return currentGeneration();
}

async function runWith<S extends State, R>(train: TrainFunction<S, R>, state: S): Promise<R> {
  const side = runSideOf(state);
  const worker = elasticWorker();
  if (worker !== undefined) {
    worker.beginRun();
    const { number, hostname, store } = worker;
    const { elasticVerify: verifies } = readSettings(processEnvironment());
    // Few jobs are elastic, and modules are a large part of what starting a rank costs.
    const { Run } = await import('./run-loop.ts');
    const job: ElasticJob = { worker: number, hostname, store, verifies, form: reform, retire };
    return new Run(job, side, {
      train: async () => train(state),
      save: () => state.save(),
      restore: () => state.restore(),
    }).toTheEnd();
  }
  // In an elastic job only init() makes a worker.
  const settings = readSettings(processEnvironment());
  if (settings.worker !== undefined || isElasticWithoutLauncher(settings)) defaultContext('elastic.run');
  if (isInitialized()) await state.sync();
  return train(state);
}
