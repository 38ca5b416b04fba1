import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { errorOf } from '../../test/support/error-of.ts';
import { becomeResumable } from '../data/resumable.ts';
import * as hvd from '../index.ts';
import type { ElasticRunner, Reset, StatePart } from './runner.ts';
import { runSideOf } from './state.ts';

const { ObjectState, State } = hvd.elastic;

before(() => hvd.init());
after(() => hvd.shutdown());

describe('ObjectState', () => {
  test('fields are properties, and restore() brings back those of the last commit (test_elastic_state)', async () => {
    const state = new ObjectState({
      epoch: 1,
      batch: 2,
      history: { losses: [0.5] },
      best: undefined as number | undefined,
    });
    state.save();
    state.epoch = 7;
    state.history.losses.push(0.25);
    state.best = 3;
    state.restore();
    assert.deepEqual(
      [state.epoch, state.batch, state.history, state.best],
      [1, 2, { losses: [0.5] }, undefined],
    );
    state.epoch = 8;
    await state.commit();
    state.epoch = 9;
    state.restore();
    assert.equal(state.epoch, 8);
    assert.equal(state.commits, 2);
  });

  test('what is restored can be changed without changing what is kept', () => {
    const state = new ObjectState({ list: [1] });
    state.commitSync();
    for (let i = 0; i < 2; i += 1) {
      state.restore();
      assert.deepEqual(state.list, [1]);
      state.list.push(2);
    }
  });

  test('a typed array is filled again, not replaced, and its memory is kept apart', () => {
    const weights = Float32Array.of(1, 2, 3);
    const state = new ObjectState({ weights, step: 0 });
    state.save();
    weights.fill(9);
    state.weights = new Float32Array(5);
    state.restore();
    assert.equal(state.weights, weights);
    assert.deepEqual([...weights], [1, 2, 3]);
    weights[0] = 4;
    state.save();
    weights.fill(0);
    state.restore();
    assert.deepEqual([...weights], [4, 2, 3]);
  });

  test('a field that has no place yet is kept as that', () => {
    const places: unknown[] = [];
    const reader = { read: () => 1 };
    becomeResumable(reader, { place: () => undefined, resumeAt: (place) => void places.push(place) });
    const state = new ObjectState({ reader });
    state.commitSync();
    state.restore();
    assert.deepEqual([state.reader, places], [reader, [undefined]]);
  });

  test('before the first commit restore() changes nothing', () => {
    const state = new ObjectState({ epoch: 1 });
    state.epoch = 2;
    state.restore();
    assert.equal(state.epoch, 2);
  });

  test('values that a clone would lose are rejected, and so are names that every state has', () => {
    const make = (fields: object) => () => new ObjectState(fields);
    const invalid = (text: RegExp) => ({ code: 'ERR_HVD_INVALID_ARGUMENT', message: text });
    class Model {}
    assert.throws(make({ model: new Model() }), invalid(/field model .*KerasState/));
    assert.throws(make({ deep: [{ model: new Model() }] }), invalid(/field deep/));
    assert.throws(make({ f: () => 1 }), invalid(/field f is/));
    assert.throws(make({ commit: 1 }), invalid(/cannot be called commit/));
    assert.throws(make([1] as unknown as object), invalid(/an object of fields/));
  });

  test('sync() saves', async () => {
    const state = new ObjectState({ epoch: 3, weights: Float32Array.of(1) });
    await state.sync();
    state.epoch = 4;
    state.weights[0] = 2;
    state.restore();
    assert.deepEqual([state.epoch, state.weights[0]], [3, 1]);
    assert.equal(state.commits, 0);
  });
});

describe('State', () => {
  const resetTo = (size: number): Reset => ({
    generation: 2,
    rank: 0,
    size,
    previousRank: 0,
    previousSize: 2,
    joined: [],
    lost: [],
  });

  const alone = {
    highest: async (value: number) => value,
    highestSync: (value: number) => value,
    steps: { step: 0 },
  };

  test('inside of run(), commit() asks for host updates where a check is due', async () => {
    const state = new ObjectState({ epoch: 0 });
    const asked: string[] = [];
    const runner: ElasticRunner = {
      generation: 1,
      saved() {},
      isDue: (commit) => commit % 2 === 0,
      async check(commit) {
        asked.push(`later ${commit}`);
      },
      checkSync(commit) {
        asked.push(`now ${commit}`);
      },
      ...alone,
    };
    await state.commit();
    runSideOf(state).attach(runner);
    await state.commit();
    state.commitSync();
    state.commitSync();
    await state.checkHostUpdates();
    state.checkHostUpdatesSync();
    runSideOf(state).attach(undefined);
    await state.checkHostUpdates();
    assert.deepEqual(asked, ['later 2', 'now 4', 'later 4', 'now 4']);
  });

  test('the state has been saved when the check throws', async () => {
    const state = new ObjectState({ epoch: 0 });
    const interrupt = new hvd.HorovodError('ERR_HVD_ABORTED', 'stands for an update of the hosts');
    runSideOf(state).attach({
      generation: 1,
      saved() {},
      isDue: () => true,
      check: () => Promise.reject(interrupt),
      checkSync() {
        throw interrupt;
      },
      ...alone,
    });
    state.epoch = 5;
    assert.equal(await errorOf(state.commit()), interrupt);
    assert.throws(() => state.commitSync(), interrupt);
    state.epoch = 6;
    state.restore();
    assert.equal(state.epoch, 5);
    assert.equal(state.commits, 2);
  });

  test('a newcomer has no commit until it has received one', async () => {
    const state = new ObjectState({ epoch: 4 });
    state.save();
    const side = runSideOf(state);
    assert.equal(side.commits, 1);
    side.becomeNewcomer();
    assert.equal(side.commits, -1);
    await side.syncFrom({ root: 0, lacking: [] });
    assert.equal(side.commits, 1);
  });

  test('reset callbacks are called in their order, awaited, until they are ended', async () => {
    const state = new ObjectState({});
    const seen: string[] = [];
    const end = state.onReset(async ({ size }) => {
      await Promise.resolve();
      seen.push(`first, of ${size}`);
    });
    state.registerResetCallbacks([() => void seen.push('second'), () => void seen.push('third')]);
    await runSideOf(state).callResets(resetTo(3));
    end();
    await runSideOf(state).callResets(resetTo(4));
    assert.deepEqual(seen, ['first, of 3', 'second', 'third', 'second', 'third']);
    assert.throws(() => state.onReset(1 as unknown as () => void), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });

  test('parts of your own are saved, restored, synchronized; none may fail half way', async () => {
    const calls: string[] = [];
    let isReady = true;
    let failure: Error | undefined;
    const part = (name: string): StatePart => ({
      save: () => void calls.push(`save ${name}`),
      restore: () => void calls.push(`restore ${name}`),
      async sync(root, { lacking }) {
        calls.push(`sync ${name} from ${root} to ${lacking.join()}`);
        if (name === 'b' && failure !== undefined) throw failure;
      },
      digest: () => name,
      canSave: () => isReady,
    });
    const parts = [part('a'), part('b')];
    class OwnState extends State {
      protected override parts(): readonly StatePart[] {
        return parts;
      }
    }
    const state = new OwnState();
    state.commitSync();
    isReady = false;
    state.commitSync();
    assert.equal(state.commits, 1, 'the second commit came in the middle of a step');
    state.restore();
    failure = new Error('the root is lost');
    await assert.rejects(runSideOf(state).syncFrom({ root: 0, lacking: [1] }), failure);
    failure = undefined;
    await runSideOf(state).syncFrom({ root: 0, lacking: [1] });
    assert.deepEqual(calls, [
      'save a',
      'save b',
      'restore a',
      'restore b',
      'sync a from 0 to 1',
      'sync b from 0 to 1',
      'sync a from 0 to 1',
      'sync b from 0 to 1',
      'save a',
      'save b',
    ]);
    assert.match(runSideOf(state).digest(), /^[0-9a-f]{64}$/);
  });

  test('only a state is taken for one', () => {
    assert.throws(() => runSideOf({ epoch: 0 } as never), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
      message: /ObjectState/,
    });
  });
});
