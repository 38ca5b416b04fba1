import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ObservedOperation } from '../../engine/observer.ts';
import { FlightRecorder } from './flight-recorder.ts';

function fly(recorder: FlightRecorder, fields: Partial<ObservedOperation>): ObservedOperation {
  const operation = Object.assign(new ObservedOperation(), { sequence: recorder.count + 1 }, fields);
  recorder.submitted(operation);
  return operation;
}

describe('the flight recorder', () => {
  test('keeps the last records, oldest first', () => {
    const recorder = new FlightRecorder(3);
    assert.deepEqual(recorder.read(), []);
    for (const name of ['a', 'b', 'c', 'd', 'e']) fly(recorder, { name });
    assert.deepEqual(
      recorder.read().map(({ sequence, name }) => [sequence, name]),
      [
        [3, 'c'],
        [4, 'd'],
        [5, 'e'],
      ],
    );
  });

  test('a record that is written over starts anew', () => {
    const recorder = new FlightRecorder(1);
    const first = fly(recorder, { name: 'a' });
    first.error = 'ERR_HVD_MISMATCH';
    recorder.settled(first);
    assert.deepEqual([recorder.last?.state, recorder.last?.error], ['failed', 'ERR_HVD_MISMATCH']);
    fly(recorder, { name: 'b' });
    recorder.settled(first);
    const [record] = recorder.read();
    assert.deepEqual([record?.state, record?.error], ['pending', undefined]);
  });

  test('names an unnamed operation when asked', () => {
    const recorder = new FlightRecorder(2);
    fly(recorder, { unnamed: 12 });
    assert.equal(recorder.read()[0]?.name, 'allreduce.noname.12');
    assert.ok(!('unnamed' in (recorder.read()[0] ?? {})));
  });

  test('the last one is of the user, not of this package', () => {
    const recorder = new FlightRecorder(2);
    fly(recorder, { kind: 'processSet', name: 'horovod.process_set.1' });
    const names = [recorder.last?.name];
    fly(recorder, { name: 'loss' });
    fly(recorder, { kind: 'processSet', name: 'horovod.process_set.2' });
    names.push(recorder.last?.name);
    fly(recorder, { kind: 'processSet', name: 'horovod.process_set.3' });
    names.push(recorder.last?.name); // its place in the ring was taken
    assert.deepEqual(names, [undefined, 'loss', undefined]);
    assert.equal(recorder.count, 4);
  });

  test('what was read does not change afterwards', () => {
    const recorder = new FlightRecorder(1);
    fly(recorder, { name: 'a' });
    const read = recorder.read();
    fly(recorder, { name: 'b' });
    assert.equal(read[0]?.name, 'a');
  });

  test('may have room for nothing', () => {
    const recorder = new FlightRecorder(0);
    recorder.settled(fly(recorder, { name: 'a', bytes: 8 }));
    assert.deepEqual(recorder.read(), []);
    assert.deepEqual([recorder.last?.name, recorder.last?.state, recorder.bytes], ['a', 'done', 8]);
  });

  test('shapes of a quick call are made when somebody asks', () => {
    const recorder = new FlightRecorder(3);
    const shape = [2, 3];
    fly(recorder, { shape, elements: 6 });
    fly(recorder, { elements: 6 });
    fly(recorder, { shapes: [[1], [2]] });
    const read = recorder.read();
    shape[0] = 9;
    assert.deepEqual(
      read.map(({ shapes }) => shapes),
      [[[2, 3]], [[6]], [[1], [2]]],
    );
    assert.deepEqual(
      Object.keys(read[0] ?? {}).filter((key) => /^(shape|elements|unnamed)$/.test(key)),
      [],
    );
  });

  test('counts how often a name was asked for, without those that were rejected', () => {
    const recorder = new FlightRecorder(8);
    const named = { key: 'grad', name: 'grad' };
    fly(recorder, named);
    const rejected = fly(recorder, named);
    rejected.isRejected = true;
    recorder.settled(rejected);
    recorder.stage(Object.assign(new ObservedOperation(), named), 'zeros');
    fly(recorder, named);
    fly(recorder, { ...named, processSet: 1 });
    recorder.processSetAdded(0);
    fly(recorder, named);
    assert.deepEqual(
      recorder.read().map(({ occurrence }) => occurrence),
      [1, 2, 3, 1, 1],
    );
  });

  test('learns when a quick operation did not end at once, and who called it', () => {
    const recorder = new FlightRecorder(1);
    const quick = Object.assign(new ObservedOperation(), { sequence: 1, unnamed: 1, finishedAtMs: 3 });
    recorder.afterQuick(quick);
    assert.deepEqual([recorder.last?.state, recorder.last?.callSite], ['done', undefined]);
    const slow = Object.assign(new ObservedOperation(), { sequence: 2, unnamed: 2, submittedAtMs: 5 });
    recorder.stage(slow, 'slow');
    assert.deepEqual([recorder.last?.state, recorder.last?.submittedAtMs], ['pending', 5]);
    recorder.agreed(slow);
    assert.equal(recorder.last?.state, 'running');
  });
});
