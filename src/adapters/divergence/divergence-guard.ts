// Compares the weights of the ranks after the first steps, then now and then, and at the end of epochs. Ranks that train
// different weights go on without an error otherwise: the gradients still fit.
//
// The comparison is a step's last exchange, after its gradients were reduced, so all ranks are there. It is *optional*
// (AdapterContext.exchangeCheck): where not all ranks come to it at the same point (one has joined, or has turned the check off), it
// is given up on all, and nobody waits. All ranks conclude the same from the same reports, so all stop comparing together.

import { HorovodError } from '../../errors.ts';
import type { ProcessSet } from '../../operations/process-set.ts';
import { type BothForms, runSync, wait } from '../both-forms.ts';
import { type AdapterContext, currentContext, globalProcessSet } from '../context.ts';
import { type DataDifference, notesOf } from './data-notes.ts';
import { type Difference, firstDifference, machineWith, type Report, type WeightSummary } from './report.ts';
import { describeSplit } from './split.ts';

/** The weights that a step trains, as they are before its update. */
export interface GuardedWeights {
  readonly names: readonly string[];
  /** What the rank computes with. */
  readonly backend: string;
  /** How often they were broadcast to this rank; undefined where that is not known. */
  readonly broadcasts: number | undefined;
  summarize(maxWords: number): BothForms<readonly WeightSummary[]>;
}

export interface GuardOptions {
  /** Named in warnings: 'DistributedOptimizer'. */
  readonly what: string;
  readonly processSet: ProcessSet | undefined;
  /** How to give all ranks the same weights. */
  readonly howToBroadcast: string;
}

/** After the first steps a part of each weight will do: what differs, differs almost everywhere. */
const sampledWords = 1024;
/** After the first steps, comparisons are this many steps apart. */
const maxInterval = 1024;

export class DivergenceGuard {
  readonly #options: GuardOptions;
  #context: AdapterContext | undefined;
  #broadcasts = 0;
  #restarts = 0;
  #steps = 0;
  #equalAfter: number | undefined;
  #isOver = false;
  #last: { readonly name: string; readonly weights: () => GuardedWeights } | undefined;
  #seesEpochs = false;
  /** All ranks do. */
  #allSeeEpochs = false;
  #epochEndedAt = 0;
  #machine: string | undefined;

  constructor(options: GuardOptions) {
    this.#options = options;
  }

  /** In each step, after the reduction and before the update. `name` is the same on all ranks. Looks at the weights when they are due. */
  *step(name: string, weights: () => GuardedWeights): BothForms<void> {
    const context = currentContext();
    if (!context.checksDivergence) return;
    // A broadcast is a point at which all ranks are, even if they had counted differently (after a join).
    const broadcasts = broadcastsIn(context, this.#options.processSet);
    if (this.#context !== context || this.#broadcasts !== broadcasts) this.#restart(context, broadcasts);
    this.#last = { name, weights };
    const done = this.#steps++;
    if (!this.#isOver && isDue(done)) yield* this.#compare(context, sampledWords, done, `${done}`);
  }

  /** From now on epochEnded() is called. */
  expectEpochs(): void {
    this.#seesEpochs = true;
  }

  /** May be called several times for an epoch. Blocking. */
  epochEnded(): void {
    if (this.#isOver || !this.#allSeeEpochs || this.#epochEndedAt === this.#steps) return;
    this.#epochEndedAt = this.#steps;
    const steps = this.#steps;
    runSync(this.#compare(currentContext(), Number.POSITIVE_INFINITY, steps, `epoch.${steps}`));
  }

  #restart(context: AdapterContext, broadcasts: number): void {
    // Counted within a context: ranks may have joined that have not restarted before.
    this.#restarts = this.#context === context ? this.#restarts + 1 : 0;
    this.#context = context;
    this.#broadcasts = broadcasts;
    this.#steps = 0;
    this.#equalAfter = undefined;
    this.#isOver = false;
    this.#allSeeEpochs = false;
    this.#epochEndedAt = 0;
  }

  *#compare(context: AdapterContext, maxWords: number, steps: number, when: string): BothForms<void> {
    const { processSet } = this.#options;
    const { name, weights: look } = this.#last as { name: string; weights: () => GuardedWeights };
    const weights = look();
    const notes = notesOf(context);
    this.#machine ??= machineWith(weights.backend);
    const report: Report = {
      weights: yield* weights.summarize(maxWords),
      machine: this.#machine,
      wereBroadcast: weights.broadcasts === undefined ? undefined : weights.broadcasts > 0,
      seesEpochs: this.#seesEpochs,
      data: processSet === undefined ? notes.report() : {},
    };
    const key = `${name}.check.${this.#restarts}.${when}`;
    const reports = yield* this.#exchange(context, key, report);
    if (reports === undefined) return;
    this.#allSeeEpochs = reports.every(({ seesEpochs }) => seesEpochs);
    const { ranks, index } = context.membersOf(processSet, this.#options.what);
    const warn = (text: string) => index === 0 && context.log.write('warning', text);
    for (const found of notes.compare(reports.map(({ data }) => data))) warn(dataWarning(found, ranks));
    const difference = firstDifference(reports);
    if (difference === undefined) {
      this.#equalAfter = steps;
      return;
    }
    this.#isOver = true;
    warn(this.#weightWarning(difference, reports, ranks, weights.names, steps));
  }

  *#exchange(context: AdapterContext, key: string, report: Report): BothForms<Report[] | undefined> {
    const { processSet } = this.#options;
    const text = JSON.stringify(report);
    try {
      const texts = yield* wait(
        () => context.exchangeCheckSync(key, text, processSet),
        () => context.exchangeCheck(key, text, processSet),
      );
      return texts?.map((each) => JSON.parse(each) as Report);
    } catch (error) {
      // A rank has left in good order: what comes next tells this rank, if it needs that one.
      if (!HorovodError.is(error) || error.code !== 'ERR_HVD_SHUT_DOWN') throw error;
      this.#isOver = true;
      return undefined;
    }
  }

  #weightWarning(
    difference: Difference,
    reports: readonly Report[],
    ranks: readonly number[],
    names: readonly string[],
    steps: number,
  ): string {
    const { what } = this.#options;
    return (
      `${what}: the weights of the ranks differ after ${stepsText(steps)}. The first one that does is ` +
      `"${names[difference.place]}": ${describeSplit(difference, ranks)}. ${this.#cause(reports)} Until this is fixed, each of these ranks ` +
      'trains a model of its own, and the checkpoints are those of one rank. HOROVOD_DIVERGENCE_CHECK=0 turns this check off.'
    );
  }

  #cause(reports: readonly Report[]): string {
    const { howToBroadcast } = this.#options;
    if (this.#equalAfter !== undefined) {
      return (
        `They were the same after ${stepsText(this.#equalAfter)}, so something has changed them on some ranks only: a second optimizer ` +
        'without DistributedOptimizer(), gradients that were applied without being reduced, or weights that were loaded or assigned.'
      );
    }
    if (reports.some(({ wereBroadcast }) => wereBroadcast === true)) {
      return (
        'They were broadcast, and have changed since then on some ranks only: weights that were loaded or assigned after the broadcast, or ' +
        'an optimizer without DistributedOptimizer().'
      );
    }
    return `The most likely cause is that they were not broadcast: ${howToBroadcast}.`;
  }
}

/** Weights were broadcast to all ranks of the context, or of this set: guards of these ranks count their steps anew. */
export function broadcastEnded(context: AdapterContext, processSet: ProcessSet | undefined): void {
  const key = processSet === undefined || processSet === globalProcessSet ? context : processSet;
  broadcastsEnded.set(key, (broadcastsEnded.get(key) ?? 0) + 1);
}

/** All ranks of the set count the same. */
function broadcastsIn(context: AdapterContext, processSet: ProcessSet | undefined): number {
  const ofSet = processSet === undefined ? 0 : (broadcastsEnded.get(processSet) ?? 0);
  return (broadcastsEnded.get(context) ?? 0) + ofSet;
}

const broadcastsEnded = new WeakMap<AdapterContext | ProcessSet, number>();

/** After 1, 2, 4 … 1024 steps, then every 1024. */
function isDue(steps: number): boolean {
  return steps > 0 && ((steps & (steps - 1)) === 0 || steps % maxInterval === 0);
}

function dataWarning(found: DataDifference, ranks: readonly number[]): string {
  return (
    `${found.label}: the ranks passed different data, or the same data in a different order (${describeSplit(found, ranks)}). Some samples ` +
    'are then used on several ranks and others on none, and samples of a test set that was split off before may be used for training. ' +
    'Shuffle with the same seed on all ranks, for example with hvd.shuffledIndices(length, { seed }), and shard after that.'
  );
}

function stepsText(steps: number): string {
  return steps === 1 ? '1 step' : `${steps} steps`;
}
