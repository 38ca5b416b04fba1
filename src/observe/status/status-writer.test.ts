import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ObservedOperation } from '../../engine/observer.ts';
import { StepClock } from '../../engine/step-clock.ts';
import { runContexts } from '../../testing/run-contexts.ts';
import { FlightRecorder } from '../flight-recorder/flight-recorder.ts';
import { MemoryBoard } from './status-board.ts';
import { StatusWriter } from './status-writer.ts';

function writerAt(clock: { nowMs: number; cpuMs?: number }) {
  const board = new MemoryBoard();
  const recorder = new FlightRecorder(8);
  const steps = new StepClock(() => clock.nowMs);
  const place = { board, host: 'host1', job: 'job1' };
  const nowMs = () => clock.nowMs;
  const writer = new StatusWriter({
    rank: 0,
    size: 1,
    place,
    recorder,
    steps,
    nowMs,
    pending: () => [],
    cpuMs: () => clock.cpuMs ?? 0,
  });
  steps.subscribe((mark) => writer.step(mark));
  return { writer, board, recorder, steps };
}

describe('the status of a rank', () => {
  test('shows its steps, its collectives and what it waits for to all ranks', async () => {
    const seen = await runContexts(2, async (context, rank) => {
      context.steps.mark(32);
      if (rank === 0) {
        const { allreduce } = await import('../../operations/collectives.ts');
        const waiting = allreduce(context, new Float32Array(8), { name: 'grad' });
        await Promise.resolve();
        context.status.write();
        await waiting;
        return undefined;
      }
      while ((context.status.read(0)?.pending.length ?? 0) === 0) await new Promise(setImmediate);
      const status = context.status.read(0);
      const { allreduce } = await import('../../operations/collectives.ts');
      await allreduce(context, new Float32Array(8), { name: 'grad' });
      return status;
    });
    const status = seen[1];
    assert.deepEqual(
      [status?.step, status?.samples, status?.pending[0]?.label, status?.pending[0]?.missing],
      [1, 32, 'allreduce "grad"', [1]],
    );
    assert.deepEqual([status?.last?.name, status?.last?.bytes, status?.pid], ['grad', 32, process.pid]);
    assert.ok((status?.rssBytes ?? 0) > 1e6);
  });

  test('goes out when a step ends, at most ten times a second', () => {
    const clock = { nowMs: 1000 };
    const { writer, board, steps } = writerAt(clock);
    steps.mark();
    assert.equal(board.read(0)?.step, 1);
    clock.nowMs += 99;
    steps.mark();
    assert.equal(board.read(0)?.step, 1, 'too soon');
    clock.nowMs += 1;
    steps.mark();
    assert.equal(board.read(0)?.step, 3);
    writer.close();
  });

  test('says since when the rank has been idle: no processor time, and no collective', () => {
    const clock = { nowMs: 1000, cpuMs: 50 };
    const { writer, board, recorder } = writerAt(clock);
    const idleAfter = (ms: number, cpuMs: number) => {
      clock.nowMs += ms;
      clock.cpuMs += cpuMs;
      writer.write();
      return board.read(0)?.idleSince;
    };
    assert.equal(idleAfter(0, 0), undefined);
    assert.equal(idleAfter(500, 400), undefined, 'it computes');
    const since = idleAfter(500, 2);
    assert.ok(since !== undefined && since <= Date.now());
    assert.equal(idleAfter(500, 0), since);
    recorder.submitted(Object.assign(new ObservedOperation(), { sequence: 1, bytes: 4 }));
    assert.equal(idleAfter(100, 0), undefined, 'a collective');
    assert.equal(idleAfter(500, 0), undefined, 'between these two looks it was not idle');
    assert.notEqual(idleAfter(500, 0), undefined);
    writer.close();
  });

  test('has the rates of the last seconds', () => {
    const clock = { nowMs: 1000 };
    const { writer, board, recorder, steps } = writerAt(clock);
    for (let second = 0; second < 20; second++) {
      for (let i = 0; i < 4; i++) {
        const sequence = recorder.count + 1;
        recorder.submitted(Object.assign(new ObservedOperation(), { sequence, bytes: 1000 }));
        steps.mark(second < 10 ? 8 : 16);
      }
      clock.nowMs += 1000;
      writer.write();
    }
    assert.deepEqual(board.read(0)?.rates, { stepsPerSecond: 4, samplesPerSecond: 64, bytesPerSecond: 4000 });
    assert.deepEqual([board.read(0)?.bytes, board.read(0)?.collectives], [80_000, 80]);
    writer.close();
  });

  test('carries what others have to say in it, and at last that the rank has left', () => {
    const { writer, board } = writerAt({ nowMs: 0 });
    writer.set({ waitMsPerStep: 2.5 });
    writer.write();
    assert.deepEqual([board.read(0)?.waitMsPerStep, board.read(0)?.hasLeft], [2.5, undefined]);
    writer.close();
    assert.deepEqual([board.read(0)?.waitMsPerStep, board.read(0)?.hasLeft], [2.5, true]);
  });

  test('that cannot be written harms nobody', () => {
    const board = {
      publish() {
        throw new Error('no space left');
      },
      read() {
        throw new Error('gone');
      },
    };
    const source = {
      rank: 0,
      size: 1,
      recorder: new FlightRecorder(1),
      steps: new StepClock(),
      nowMs: () => 1,
    };
    const place = { board, host: 'host1', job: 'job1' };
    const writer = new StatusWriter({ ...source, place, pending: () => [] });
    writer.write();
    assert.deepEqual(writer.readAll(), [undefined]);
    writer.close();
  });

  test('of a rank that has no place for it is never due', () => {
    const recorder = new FlightRecorder(1);
    const nowMs = () => 1;
    const writer = new StatusWriter({
      rank: 0,
      size: 1,
      place: undefined,
      recorder,
      steps: new StepClock(),
      nowMs,
      pending: () => assert.fail('nobody asks'),
    });
    assert.equal(writer.dueAtMs, Number.POSITIVE_INFINITY);
    writer.write();
    writer.close();
  });
});
