import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { controlLayout } from '../../control/control-block.ts';
import { createMemoryFile } from '../../control/memory-file.ts';
import { ObservedOperation } from '../../engine/observer.ts';
import { Collector } from './collector.ts';
import { TimelineRecorder } from './recorder.ts';
import { operationWords, RecordReader, recordType, textOf } from './records.ts';
import { RingReader, RingWriter, sessionOf } from './ring.ts';
import { isRingRead, publishRing, setCollecting } from './ring-registry.ts';

function ringOf(t: { after(fn: () => void): void }, capacity: number): [RingWriter, RingReader] {
  const writer = new RingWriter({ capacity });
  const reader = RingReader.open(writer.path, [process.pid]);
  assert.ok(reader);
  t.after(() => {
    writer.close();
    reader.close();
  });
  return [writer, reader];
}

test('what is written is read, in order, also around the end of the ring', (t) => {
  const [writer, reader] = ringOf(t, 64);
  for (let i = 0; i < 20; i++) {
    assert.ok(
      writer.write(
        Uint8Array.from({ length: 40 }, (_, k) => i + k),
        1,
      ),
    );
    const bytes = Buffer.concat([reader.read(16), reader.read(1000)]);
    assert.deepEqual(
      [...bytes],
      Array.from({ length: 40 }, (_, k) => i + k),
    );
  }
  assert.equal(reader.read(100).length, 0);
  assert.ok(writer.isDrained);
  assert.ok(!reader.isOver);
  writer.end();
  reader.read(1);
  assert.ok(reader.isOver);
});

test('a ring without room drops and counts, and goes on when it has been read', (t) => {
  const [writer, reader] = ringOf(t, 64);
  assert.ok(writer.write(new Uint8Array(48), 1));
  assert.ok(!writer.write(new Uint8Array(24), 3));
  assert.equal(writer.dropped, 3);
  assert.equal(reader.read(1000).length, 48);
  assert.equal(reader.dropped, 3);
  assert.ok(writer.write(new Uint8Array(64), 1));
});

test('what is no ring is none', () => {
  assert.equal(RingReader.open('/nonexistent', [process.pid]), undefined);
  assert.equal(RingReader.open('/dev/null 0 0', [process.pid]), undefined);
  const writer = new RingWriter({ capacity: 64 });
  assert.equal(
    RingReader.open(writer.path.replace(/ \d+ 0$/, ' 7 0'), [process.pid]),
    undefined,
    'another one',
  );
  writer.close();
});

test('a recorder sends each text once, and again after it was dropped', (t) => {
  const [writer, reader] = ringOf(t, 32 * 1024);
  const hello = { rank: 3, size: 4, host: 'h', pid: 7, transport: 'shm', cores: 2 };
  const recorder = new TimelineRecorder(writer, hello, { markCycles: false, maxPerSecond: 1e9 });
  const operation = Object.assign(new ObservedOperation(), { key: 'grad', marks: [1, 2] });
  const note = () => recorder.operation(operation);
  note();
  note();
  recorder.flush();
  const records = new RecordReader();
  const seen: string[] = [];
  const read = () =>
    records.push(reader.read(1 << 20), (type, words) => {
      if (type === recordType.text) seen.push(textOf(words));
      if (type === recordType.operation) seen.push(`operation ${words[1]} ${words.length - operationWords}`);
    });
  read();
  // Texts come twice for a reader that is new.
  assert.deepEqual(
    [...new Set(seen)],
    [JSON.stringify(hello), 'grad', '"kind":"allreduce"', 'operation 1 2'],
  );
  seen.length = 0;
  note();
  recorder.flush();
  read();
  assert.deepEqual(seen, ['operation 1 2']);
  // Nobody reads: the ring fills, and what comes is counted instead.
  for (let i = 0; i < 3000; i++) note();
  recorder.flush();
  assert.ok(writer.dropped > 0);
  seen.length = 0;
  read();
  note();
  recorder.flush();
  seen.length = 0;
  read();
  assert.deepEqual(seen.slice(0, 3), [JSON.stringify(hello), 'grad', '"kind":"allreduce"']);
  assert.match(seen[3] ?? '', /^operation \d+ 2$/);
  recorder.end();
});

test('another reader learns who writes, and all texts', (t) => {
  const [writer, reader] = ringOf(t, 32 * 1024);
  const hello = { rank: 3, size: 4, host: 'h', pid: 7, transport: 'shm', cores: 2 };
  const recorder = new TimelineRecorder(writer, hello, { markCycles: false });
  recorder.instant('tuning', 'name');
  recorder.flush();
  reader.read(1 << 20);
  const second = RingReader.open(writer.path, [process.pid]);
  assert.ok(second);
  recorder.instant('tuning', 'name');
  recorder.flush();
  const seen: string[] = [];
  new RecordReader().push(second.read(1 << 20), (type, words) => {
    seen.push(type === recordType.text ? textOf(words) : `instant ${words[2]}`);
  });
  assert.deepEqual(seen, [JSON.stringify(hello), 'name', 'instant 1']);
  second.close();
  recorder.end();
});

test('of each second the first operations are shown, and the rest is counted', (t) => {
  const [writer, reader] = ringOf(t, 256 * 1024);
  const hello = { rank: 0, size: 1, host: 'h', pid: 7, transport: 'shm', cores: 2 };
  const recorder = new TimelineRecorder(writer, hello, { markCycles: false, maxPerSecond: 10 });
  for (let second = 0; second < 3; second++) {
    for (let i = 0; i < 25; i++) {
      const finishedAtMs = second * 1e3 + i / 1e3;
      recorder.operation(Object.assign(new ObservedOperation(), { unnamed: i + 1, finishedAtMs }));
    }
  }
  recorder.end();
  const seconds = [0, 0, 0];
  const texts: string[] = [];
  new RecordReader().push(reader.read(1 << 20), (type, words) => {
    if (type === recordType.operation) {
      const second = Math.floor((words[6] as number) / 1e6);
      seconds[second] = (seconds[second] ?? 0) + 1;
    }
    if (type === recordType.text) texts.push(textOf(words));
  });
  assert.deepEqual(seconds, [10, 10, 10]);
  assert.ok(texts.includes('"events":15'));
});

test('names that are made up for every call do not grow for ever', (t) => {
  const [writer, reader] = ringOf(t, 4 << 20);
  const hello = { rank: 0, size: 1, host: 'h', pid: 7, transport: 'shm', cores: 2 };
  const recorder = new TimelineRecorder(writer, hello, { markCycles: false });
  for (let i = 0; i < 10_000; i++) recorder.instant('tuning', `name ${i}`);
  recorder.end();
  let forgets = 0;
  new RecordReader().push(reader.read(8 << 20), (type) => {
    if (type === recordType.forget) forgets++;
  });
  assert.equal(forgets, 2);
});

test('a rank waits for its reader as long as that process lives', () => {
  const block = createMemoryFile(2 * controlLayout.pageBytes, { label: 'test' });
  const holds = (pid: number) =>
    writeSync(block.fd, Uint32Array.of(pid), 0, 4, controlLayout.pageBytes + controlLayout.rank.pid);
  try {
    holds(process.pid);
    assert.equal(isRingRead(block.fd), false, 'nobody collects');
    setCollecting(block.fd, 'collector');
    assert.equal(isRingRead(block.fd), true);
    holds(spawnSync(process.execPath, ['--version']).pid);
    assert.equal(isRingRead(block.fd), false, 'the collector has died');
  } finally {
    block.close();
  }
});

test('a collector that ends waits for rings that ranks have not closed yet', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-ring-'));
  const block = createMemoryFile(3 * controlLayout.pageBytes, { label: 'test' });
  const file = join(directory, 'trace.json');
  const session = sessionOf(file);
  const [own, other] = [new RingWriter({ session }), new RingWriter({ session })];
  t.after(() => {
    for (const each of [own, other, block]) each.close();
    rmSync(directory, { recursive: true });
  });
  const controlBlock = { path: block.path, ranks: 2 };
  const collector = new Collector({ file, maxBytes: 2 ** 20, ownRing: own.path, controlBlock });
  publishRing(block.fd, 1, other.path);
  own.end();
  collector.finish();
  collector.turn();
  assert.equal(collector.isOver, false, 'the other rank still writes');
  other.end();
  collector.turn();
  assert.equal(collector.isOver, true);
  collector.close();
});
