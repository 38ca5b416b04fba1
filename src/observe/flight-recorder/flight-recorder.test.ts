import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FlightRecorder } from './flight-recorder.ts';

function fly(recorder: FlightRecorder, name: string): void {
  const record = recorder.begin();
  record.kind = 'allreduce';
  record.name = name;
  record.unnamed = 0;
}

describe('the flight recorder', () => {
  test('keeps the last records, oldest first', () => {
    const recorder = new FlightRecorder(3);
    assert.deepEqual(recorder.read(), []);
    for (const name of ['a', 'b', 'c', 'd', 'e']) fly(recorder, name);
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
    const first = recorder.begin();
    first.state = 'failed';
    first.error = 'ERR_HVD_MISMATCH';
    fly(recorder, 'b');
    const [record] = recorder.read();
    assert.deepEqual([record?.state, record?.error], ['pending', undefined]);
  });

  test('names an unnamed operation when asked', () => {
    const recorder = new FlightRecorder(2);
    const record = recorder.begin();
    record.kind = 'allreduce';
    record.unnamed = 12;
    assert.equal(recorder.read()[0]?.name, 'allreduce.noname.12');
    assert.ok(!('unnamed' in (recorder.read()[0] ?? {})));
  });

  test('what was read does not change afterwards', () => {
    const recorder = new FlightRecorder(1);
    fly(recorder, 'a');
    const read = recorder.read();
    fly(recorder, 'b');
    assert.equal(read[0]?.name, 'a');
  });

  test('may have room for nothing', () => {
    const recorder = new FlightRecorder(0);
    fly(recorder, 'a');
    assert.deepEqual(recorder.read(), []);
  });

  test('shapes of a quick call are made when somebody asks', () => {
    const recorder = new FlightRecorder(3);
    const shape = [2, 3];
    Object.assign(recorder.begin(), { shapes: undefined, shape, elements: 6 });
    Object.assign(recorder.begin(), { shapes: undefined, shape: undefined, elements: 6 });
    Object.assign(recorder.begin(), { shapes: [[1], [2]] });
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
});
