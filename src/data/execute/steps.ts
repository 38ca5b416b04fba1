// The steps of one rank through its data: which positions make up the next item of work, and where the data set is when a value
// of it has been taken. Pure: the same numbers give the same steps.

import { LaneWalk, lanesInOrder, lanesOfRank, streamLength } from '../order/lane-walk.ts';
import type { Lanes } from '../order/lanes.ts';
import { itemOf, laneLength, laneOf, positionOf } from '../order/lanes.ts';
import { keyOf } from '../order/random.ts';
import { type Dealing, sliceOf, stepsFrom, windowAt } from '../order/slices.ts';
import type { Plan } from '../plan/normalise.ts';

/** Where a data set is: after the last batch that the training loop has taken. */
export interface Cursor {
  readonly epoch: number;
  /** Positions of this epoch that are done. */
  readonly position: number;
  /** Values taken since the pass began. */
  readonly taken: number;
  /** Uncounted pipelines: items done of each lane, since the first epoch; and elements done of the next item. */
  readonly items?: readonly number[] | undefined;
  readonly inner?: readonly number[] | undefined;
}

/** Where the data set is after a row of an item. */
export type Mark = { readonly position: number } | { readonly lane: number; readonly items: number };

export interface Step {
  readonly epoch: number;
  readonly positions: readonly number[];
  /** Where the data set is after a row; of a batch, that of the last row counts. */
  markAt(row: number): Mark;
  readonly weight: number;
  /** Samples of all ranks in this step. */
  readonly globalSize: number;
}

export interface StepsOptions {
  readonly plan: Plan;
  readonly lanes: Lanes;
  /** Who deals: one of one where ranks do not share positions. */
  readonly rank: number;
  readonly size: number;
  /** Elements per item where there are no batches, or where batches are made later. */
  readonly runLength: number;
}

export function dealingOf({ plan, lanes, size }: StepsOptions): Dealing {
  const { batch, source } = plan;
  const perRank = batch === undefined || batch.node === 'bucketByLength' ? 1 : batch.size;
  const globalSize = batch === undefined || batch.node === 'bucketByLength' ? null : batch.globalSize;
  return {
    length: lanes.length,
    size,
    globalBatchSize: globalSize ?? perRank * size,
    uneven: source.settings.uneven,
  };
}

/** Batches of an epoch; null if nobody knows. */
export function stepsPerEpoch(options: StepsOptions): number | null {
  const { plan } = options;
  if (plan.isUncounted || plan.stages.some(({ node }, place) => node === 'filter' && place > plan.batchAt)) {
    return null;
  }
  const dealing = dealingOf(options);
  const all = dropsRemainder(plan)
    ? Math.floor(dealing.length / dealing.globalBatchSize)
    : stepsFrom(0, dealing);
  return Math.min(Math.max(0, all - plan.steps.skip), plan.steps.take);
}

/** The steps of one epoch from the cursor on. `isOver`: whether the end of a part has been seen, where records are not counted. */
export function* stepsOfEpoch(
  options: StepsOptions,
  cursor: Cursor,
  isOver: (part: number) => boolean,
): Generator<Step, void, undefined> {
  if (options.plan.isStreamed) yield* partSteps(options, cursor, isOver);
  else if (options.plan.isUncounted) yield* walkingSteps(options, cursor);
  else yield* windowSteps(options, cursor);
}

export function* windowSteps(options: StepsOptions, cursor: Cursor): Generator<Step, void, undefined> {
  const { plan, lanes, rank, size, runLength } = options;
  const dealing = dealingOf(options);
  const { globalBatchSize: window } = dealing;
  const { skip, take } = plan.steps;
  const first = Math.min(skip * window, dealing.length);
  const end = Math.min((skip + take) * window, dealing.length);
  let position = Math.max(cursor.position, first);
  if (plan.batch === undefined && size === 1) {
    yield* plainRuns(cursor.epoch, position, end, runLength);
    return;
  }
  let run: { positions: number[]; marks: Mark[] } = { positions: [], marks: [] };
  for (;;) {
    const next = position < end ? windowAt(position, dealing) : undefined;
    if (next === undefined || (dropsRemainder(plan) && next.length < window)) break;
    const { places, weight } = sliceOf(next, dealing, lanes, rank);
    const about = { epoch: cursor.epoch, globalSize: next.length };
    position = next.end;
    if (plan.batch !== undefined) {
      if (places.length > 0) {
        const mark = { position };
        yield { ...about, positions: places, markAt: () => mark, weight };
      }
      continue;
    }
    run.positions.push(...places);
    const mark = { position };
    run.marks.push(...places.map(() => mark));
    if (run.positions.length >= runLength) {
      yield { ...about, ...marked(run), weight: 1 };
      run = { positions: [], marks: [] };
    }
  }
  if (run.positions.length > 0)
    yield { epoch: cursor.epoch, globalSize: run.positions.length, ...marked(run), weight: 1 };
}

/** One rank has every position. */
function* plainRuns(
  epoch: number,
  first: number,
  end: number,
  runLength: number,
): Generator<Step, void, undefined> {
  for (let start = first; start < end; start += runLength) {
    const positions = Array.from({ length: Math.min(runLength, end - start) }, (_, row) => start + row);
    const markAt = (row: number): Mark => ({ position: start + row + 1 });
    yield { epoch, positions, markAt, weight: 1, globalSize: 1 };
  }
}

function marked({ positions, marks }: { positions: readonly number[]; marks: readonly Mark[] }) {
  return { positions, markAt: (row: number) => marks[row] as Mark };
}

/** Part after part; each until its end has been seen, so that the last runs of a part may be empty. */
function* partSteps(
  options: StepsOptions,
  cursor: Cursor,
  isOver: (part: number) => boolean,
): Generator<Step, void, undefined> {
  const { plan, lanes, rank, size, runLength } = options;
  const { epoch } = cursor;
  const done = itemsDone(lanes, cursor);
  const key = plan.pool === undefined ? undefined : keyOf(plan.seed, epoch, partsUse);
  for (const part of lanesInOrder(lanes.count, rank, size, key)) {
    for (let first = done[part] as number; first < streamLength && !isOver(part); first += runLength) {
      const start = first;
      const positions = Array.from({ length: runLength }, (_, row) => positionOf(part, start + row, lanes));
      const markAt = (row: number): Mark => ({ lane: part, items: epoch * streamLength + start + row + 1 });
      yield { epoch, positions, markAt, weight: 1, globalSize: runLength };
    }
  }
}

/** Of the seed; stretches.ts has others. */
const partsUse = 4;

/** Items of this epoch that are done, of every lane. */
function itemsDone(lanes: Lanes, { epoch, items = [] }: Cursor): number[] {
  return Array.from({ length: lanes.count }, (_, lane) => {
    const length = laneLength(lane, lanes);
    return Math.min(length, Math.max(0, (items[lane] ?? epoch * length) - epoch * length));
  });
}

function* walkingSteps(options: StepsOptions, cursor: Cursor): Generator<Step, void, undefined> {
  const { lanes, rank, size, runLength } = options;
  const { epoch } = cursor;
  const done = itemsDone(lanes, cursor);
  const walk = new LaneWalk(lanes, lanesOfRank(lanes.count, rank, size), done);
  for (;;) {
    const positions: number[] = [];
    const marks: Mark[] = [];
    while (positions.length < runLength) {
      const position = walk.next();
      if (position === undefined) break;
      const lane = laneOf(position, lanes);
      positions.push(position);
      marks.push({ lane, items: epoch * laneLength(lane, lanes) + itemOf(position, lanes) + 1 });
    }
    if (positions.length === 0) return;
    yield { epoch, ...marked({ positions, marks }), weight: 1, globalSize: positions.length };
  }
}

function dropsRemainder({ batch }: Plan): boolean {
  return batch !== undefined && batch.node !== 'bucketByLength' && batch.dropRemainder;
}
