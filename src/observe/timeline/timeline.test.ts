import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { type CheckedEvent, checkTrace } from '../../../test/support/check-trace.ts';
import { ControlBlock } from '../../control/control-block.ts';
import { nowUs } from '../../engine/clock.ts';
import { ObservedOperation } from '../../engine/observer.ts';
import { StepClock } from '../../engine/step-clock.ts';
import { HorovodError } from '../../errors.ts';
import { allreduce, barrier } from '../../operations/collectives.ts';
import { runContexts } from '../../testing/run-contexts.ts';
import { TimelineRecorder } from './recorder.ts';
import { RingWriter } from './ring.ts';
import { Timeline, type TimelinePlace } from './timeline.ts';

interface Scope {
  after(fn: () => void): void;
}

function directoryOf(t: Scope): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-timeline-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

function placeOf(rank: number, block?: ControlBlock, options: Partial<TimelinePlace> = {}): TimelinePlace {
  return {
    rank,
    size: 2,
    host: `host${rank}`,
    pid: 100 + rank,
    transport: 'memory',
    log: { write() {}, tell() {} },
    maxBytes: 1 << 20,
    block: block && {
      fd: block.fd,
      path: block.path,
      ranks: block.ranks,
      hasOtherHosts: false,
      number: rank,
    },
    ...options,
  };
}

/** A file of the user's that gets the descriptor `fd`, which `free` closes. */
function usersFile(directory: string, fd: number, free: () => void) {
  const path = join(directory, 'user.bin');
  free();
  const opened: number[] = [];
  // The system gives out the least that is free.
  do opened.push(openSync(path, 'w+'));
  while (opened.at(-1) !== fd && opened.length < 1000);
  assert.equal(opened.at(-1), fd);
  return {
    size: () => statSync(path).size,
    close: () => {
      for (const each of opened) closeSync(each);
    },
  };
}

const named = (events: readonly CheckedEvent[], name: string) =>
  events.filter((event) => event.name === name);

describe('ranks with a timeline', () => {
  test('rank 0 writes the tracks of all ranks that have theirs on', async (t) => {
    const block = ControlBlock.create(3);
    t.after(() => block.close());
    const file = join(directoryOf(t), 'trace.json');
    const timelines = [0, 1].map((rank) => new Timeline(placeOf(rank, block)));
    for (const timeline of timelines) await timeline.start(file);
    for (const { recorder } of timelines) {
      assert.ok(recorder);
      const now = nowUs();
      recorder.slice('training', 'BACKPROP', now - 100, now);
      recorder.instant('cycles', 'CYCLE_START');
    }
    await Promise.all(timelines.map((timeline) => timeline.stop()));
    const events = checkTrace(file);
    assert.deepEqual(
      named(events, 'process_name').map(({ pid, args }) => [pid, args?.['name']]),
      [
        [0, 'horovod timeline'],
        [1, 'rank 0 (host0, pid 100)'],
        [2, 'rank 1 (host1, pid 101)'],
      ],
    );
    assert.deepEqual(
      named(events, 'BACKPROP').map(({ pid }) => pid),
      [1, 2],
    );
    assert.ok(timelines.every(({ recorder }) => recorder === undefined));
  });

  test('it can be started and stopped again and again, with other files', async (t) => {
    const directory = directoryOf(t);
    const steps = new StepClock();
    const timeline = new Timeline(placeOf(0));
    steps.subscribe((mark) => timeline.step(mark));
    for (const name of ['a.json', 'b.json', 'a.json']) {
      await timeline.start(join(directory, name));
      steps.mark(32);
      await timeline.stop();
      const [step] = named(checkTrace(join(directory, name)), `step ${steps.step}`);
      assert.deepEqual(step?.args, { samples: 32 });
    }
    await timeline.stop();
  });

  test('one that is started while another is being stopped begins after it', async (t) => {
    const block = ControlBlock.create(2);
    t.after(() => block.close());
    const directory = directoryOf(t);
    const [first, second] = [0, 1].map((rank) => new Timeline(placeOf(rank, block))) as [Timeline, Timeline];
    for (const timeline of [first, second]) await timeline.start(join(directory, 'a.json'));
    const stopped = [first, second].map((timeline) => timeline.stop());
    const again = [first, second].map((timeline) => timeline.start(join(directory, 'b.json')));
    await Promise.all([...stopped, ...again]);
    second.recorder?.instant('cycles', 'SECOND');
    // The second call waits for what the first one does.
    await Promise.all([first.stop(), second.stop(), first.stop()]);
    assert.equal(named(checkTrace(join(directory, 'b.json')), 'SECOND').length, 1);
  });

  test('a stop that comes during the start ends it', async (t) => {
    const timeline = new Timeline(placeOf(0));
    const started = timeline.start(join(directoryOf(t), 'a.json'));
    await timeline.stop();
    await started;
    assert.equal(timeline.recorder, undefined);
  });

  test('a shutdown during a stop that nobody awaited touches no descriptor afterwards', async (t) => {
    const directory = directoryOf(t);
    const block = ControlBlock.create(1);
    const timeline = new Timeline(placeOf(0, block));
    await timeline.start(join(directory, 'a.json'));
    const stopped = timeline.stop();
    timeline.close();
    const users = usersFile(directory, block.fd, () => block.close());
    t.after(users.close);
    await stopped;
    assert.equal(users.size(), 0);
  });

  test('an operation that ends after its timeline notes nothing down', (t) => {
    const ring = new RingWriter();
    const recorder = new TimelineRecorder(ring, { ...placeOf(0), cores: 2 }, { markCycles: false });
    recorder.end();
    const users = usersFile(directoryOf(t), Number(ring.path.split(' ')[0]?.split('/').at(-1)), () =>
      ring.close(),
    );
    t.after(users.close);
    const operation = Object.assign(new ObservedOperation(), { key: 'late', isTraced: true });
    for (let i = 0; i < 1000; i++) recorder.operation(operation);
    recorder.flush();
    assert.equal(users.size(), 0);
  });

  test('shutdown leaves a whole file, without waiting for the event loop', async (t) => {
    const file = join(directoryOf(t), 'trace.json');
    const timeline = new Timeline(placeOf(0));
    await timeline.start(file);
    timeline.recorder?.instant('cycles', 'LAST');
    timeline.close();
    assert.equal(named(checkTrace(file), 'LAST').length, 1);
  });

  test('phases of training steps and marks of the tuner are heard from their channels', async (t) => {
    const file = join(directoryOf(t), 'trace.json');
    const timeline = new Timeline(placeOf(0));
    await timeline.start(file);
    const now = performance.now();
    const phases = [
      { phase: 'forwardMs', fromMs: now, toMs: now + 1 },
      { phase: 'backwardMs', fromMs: now + 1, toMs: now + 2 },
      { phase: 'exposedCommunicationMs', fromMs: now + 2, toMs: now + 3 },
    ];
    channel('horovod.tensorflow.step').publish({ phases });
    channel('horovod.autotune').publish({ name: 'TRIAL', args: { bucketBytes: 1 } });
    await timeline.stop();
    const events = checkTrace(file);
    assert.deepEqual(
      events
        .filter(({ tid, ph }) => tid === 2 && ph === 'X')
        .map(({ name, dur }) => [name, Math.round(dur ?? 0)]),
      [
        ['FORWARD', 1000],
        ['BACKPROP', 1000],
        ['EXPOSED_COMMUNICATION', 1000],
      ],
    );
    assert.deepEqual(named(events, 'TRIAL')[0]?.args, { bucketBytes: 1 });
    channel('horovod.tensorflow.step').publish({ phases });
  });

  test('two at once, a wrong name and a place that cannot be written are errors', async (t) => {
    const directory = directoryOf(t);
    const timeline = new Timeline(placeOf(0));
    const refused = (file: unknown, code: string, text: RegExp) =>
      assert.rejects(
        () => timeline.start(file as string),
        (error) => HorovodError.is(error) && error.code === code && text.test(error.message),
      );
    await refused('', 'ERR_HVD_INVALID_ARGUMENT', /the name of a file/);
    await refused(7, 'ERR_HVD_INVALID_ARGUMENT', /the name of a file, not 7/);
    await refused('DYNAMIC', 'ERR_HVD_INVALID_ARGUMENT', /a word for HOROVOD_TIMELINE/);
    await refused('/nonexistent/t.json', 'ERR_HVD_TIMELINE', /cannot write .*directory does not exist/);
    mkdirSync(join(directory, 'd'));
    await refused(join(directory, 'd'), 'ERR_HVD_TIMELINE', /It is a directory/);
    const file = join(directory, 'trace.json');
    await timeline.start(file);
    await timeline.start(file); // the same again is nothing new
    await refused(
      join(directory, 'other.json'),
      'ERR_HVD_TIMELINE',
      /already writing a timeline, .*trace\.json.*stopTimeline/,
    );
    await timeline.stop();
    await timeline.start(join(directory, 'other.json'));
    await timeline.stop();
  });

  test('asked for by a setting, one that cannot be written is logged, and nothing else happens', async () => {
    const lines: string[] = [];
    const log = { write: (level: string, text: string) => void lines.push(`${level}: ${text}`), tell() {} };
    const timeline = new Timeline(placeOf(0, undefined, { log }));
    await timeline.startBySettings('/nonexistent/t.json', false);
    assert.match(lines.join(), /^error: .*cannot write the timeline .* training continues\.$/);
    assert.equal(timeline.recorder, undefined);
    await timeline.startBySettings('DYNAMIC', false);
    await timeline.startBySettings(undefined, true);
    assert.equal(timeline.recorder, undefined);
    assert.equal(lines.length, 1);
  });
});

test('phases of operations: queue, negotiate, and the operation itself, with names, shapes and errors', async (t) => {
  const file = join(directoryOf(t), 'trace.json');
  await runContexts(2, async (context) => {
    const { rank } = context.world;
    if (rank === 0) await context.timeline.start(file, { markCycles: true });
    await barrier(context);
    await Promise.all([
      allreduce(context, new Float32Array(6), { name: 'b' }),
      allreduce(context, new Float32Array(2), { name: 'a"\n' }),
      allreduce(context, new Int32Array(3)),
    ]);
    // Late, and another shape: lists are exchanged, and the name is an error on both.
    if (rank === 1) await new Promise((resolve) => setTimeout(resolve, 5));
    await assert.rejects(allreduce(context, new Float32Array(2 + rank), { name: 'odd' }), /shape/);
    await barrier(context);
    if (rank === 0) await context.timeline.stop();
  });
  const events = checkTrace(file);
  const [b] = named(events, 'b');
  assert.deepEqual(b?.args, { kind: 'allreduce', dtype: 'float32', shape: '[6]', bytes: 24, op: 'Average' });
  assert.equal(named(events, 'a"\n').length, 1);
  const [unnamed] = named(events, 'allreduce.noname');
  assert.equal(unnamed?.args?.['dtype'], 'int32');
  assert.ok(named(events, 'NEGOTIATE_ALLREDUCE').length >= 3);
  assert.ok(named(events, 'ALLREDUCE').length >= 3);
  assert.ok(named(events, 'QUEUE').length >= 3);
  assert.ok(named(events, 'BARRIER').length >= 1);
  assert.ok(named(events, 'CYCLE_START').length >= 3);
  const [odd] = named(events, 'odd');
  assert.equal(odd?.args?.['error'], 'ERR_HVD_MISMATCH');
  assert.ok(
    named(events, 'NEGOTIATE_ALLREDUCE').some(({ args }) => args?.['exchanges_of_pending_lists'] === 1),
  );
  assert.match(readFileSync(file, 'utf8'), /"start_time_since_epoch_in_micros"/);
});

test('more operations at once than there are lanes still lie properly inside each other', async (t) => {
  const file = join(directoryOf(t), 'trace.json');
  await runContexts(1, async (context) => {
    await context.timeline.start(file);
    await Promise.all(
      Array.from({ length: 300 }, (_, i) => allreduce(context, new Float32Array(1), { name: `n${i}` })),
    );
    await context.timeline.stop();
  });
  const events = checkTrace(file);
  assert.equal(events.filter(({ args }) => args?.['kind'] === 'allreduce').length, 300);
});
