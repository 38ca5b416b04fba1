// DataState: a place in a data set, as JSON. It is equal on all ranks and valid for any number of them. Pure.

import { HorovodError } from '../../errors.ts';
import { describe } from '../../tensor/tensor.ts';

/** What Dataset.state() returns: where the training loop is in its data, for a checkpoint. Valid for any number of ranks. */
export interface DataState {
  /** Version of this format. */
  readonly v: 1;
  /** What the pipeline does: name and digest of each call. */
  readonly plan: readonly string[];
  /** Which files it reads: digests of groups of files. */
  readonly index: readonly string[];
  readonly seed: number;
  /** Number of lanes; fixed by the first start. */
  readonly lanes: number;
  readonly epoch: number;
  /** Samples of this epoch that are done, by all ranks together. */
  readonly position: number;
  /** Batches that were taken since the first epoch, where take() follows repeat(). */
  readonly taken?: number;
  /** Pipelines that filter: items done of each lane since the first epoch. */
  readonly items?: readonly number[];
  /** Pipelines with flatMap(): how many elements of the next item of each lane are done. */
  readonly inner?: readonly number[];
  /** Data from a data service: which batches of each group are done, and how the data is divided into groups. */
  readonly service?: ServiceProgress;
}

/** How far a job of a data service is. */
export interface ServiceProgress {
  readonly layout: {
    readonly lanes: number;
    readonly groups: number;
    readonly isByLane: boolean;
    readonly copies: number;
  };
  /** Of each group, ranges [from, to) of batches. */
  readonly done: GroupRanges;
  /** Where each rank has a job of its own: how far each is. */
  readonly ranks?: readonly { readonly epoch: number; readonly done: GroupRanges }[];
}

type GroupRanges = readonly (readonly (readonly [from: number, to: number])[])[];

export function isServicePlace(value: unknown): value is ServiceProgress {
  const { layout, done, ranks = [] } = Object(value) as Partial<ServiceProgress>;
  const { lanes, groups, isByLane, copies } = Object(layout) as Partial<ServiceProgress['layout']>;
  return (
    [lanes, groups, copies].every(isWhole) &&
    typeof isByLane === 'boolean' &&
    areGroups(done) &&
    Array.isArray(ranks) &&
    ranks.every((each: { epoch?: unknown; done?: unknown }) => isWhole(each.epoch) && areGroups(each.done))
  );
}

function areGroups(value: unknown): boolean {
  const isRange = (range: unknown) => Array.isArray(range) && range.length === 2 && range.every(isWhole);
  return (
    Array.isArray(value) && value.every((ranges: unknown) => Array.isArray(ranges) && ranges.every(isRange))
  );
}

function isWhole(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** What a state is compared with. */
export interface StateOwner {
  readonly plan: readonly string[];
  readonly index: readonly string[];
  /** Says what an entry of `index` stands for: a file, or several. */
  describeIndex(place: number): string;
}

/** Throws ERR_HVD_DATA_STATE unless it is a state of this pipeline. Names the first difference. */
export function checkState(state: unknown, { plan }: Pick<StateOwner, 'plan'>): DataState {
  const given = Object(state) as Partial<DataState>;
  const isTexts = (value: unknown) =>
    Array.isArray(value) && value.every((each: unknown) => typeof each === 'string');
  const isWholes = (value: unknown) => value === undefined || (Array.isArray(value) && value.every(isWhole));
  if (given.v !== 1) {
    throw stateError(
      `expected what state() returned, not ${'v' in given ? `a state of version ${describe(given.v)}` : describe(state)}`,
    );
  }
  for (const [name, isRight] of [
    ['plan', isTexts(given.plan)],
    ['index', isTexts(given.index)],
    ['seed', Number.isSafeInteger(given.seed)],
    ['lanes', isWhole(given.lanes) && given.lanes !== 0],
    ['epoch', isWhole(given.epoch)],
    ['position', isWhole(given.position)],
    ['taken', given.taken === undefined || isWhole(given.taken)],
    ['items', isWholes(given.items)],
    ['inner', isWholes(given.inner)],
  ] as const) {
    if (!isRight) throw stateError(`"${name}" is ${describe(given[name])}; the state is damaged`);
  }
  const whole = given as DataState;
  const place = firstDifference(whole.plan, plan);
  if (place < 0) return whole;
  const [before, now] = [whole.plan[place], plan[place]].map((text) => text?.replace(/ [0-9a-f]+$/, ''));
  throw stateError(
    before === undefined || now === undefined || before !== now
      ? `call ${place + 1} of the pipeline was ${before ?? 'not there'} and is ${now ?? 'not there'}`
      : `call ${place + 1} of the pipeline, ${now}, has other arguments than when the state was taken`,
  );
}

/** The same for the files, which are known later. */
export function checkStateIndex(state: DataState, owner: StateOwner): void {
  const place = firstDifference(state.index, owner.index);
  if (place >= 0) {
    throw stateError(
      `${owner.describeIndex(place)} ${owner.index.length === state.index.length ? 'is not what it was' : 'was not there, or is not any more'}`,
    );
  }
}

function firstDifference(a: readonly string[], b: readonly string[]): number {
  for (let place = 0; place < Math.max(a.length, b.length); place += 1) {
    if (a[place] !== b[place]) return place;
  }
  return -1;
}

function stateError(reason: string): HorovodError {
  return new HorovodError(
    'ERR_HVD_DATA_STATE',
    `restore(): ${reason}. A state belongs to one pipeline over one set of files. Restore it there, or start anew without it.`,
  );
}
