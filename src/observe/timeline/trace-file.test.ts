import assert from 'node:assert/strict';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { rotatedName, TraceFile } from './trace-file.ts';

function directoryOf(t: { after(fn: () => void): void }): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-trace-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

const eventsIn = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as unknown[];

test('the file is valid after every write', (t) => {
  const path = join(directoryOf(t), 'trace.json');
  const file = new TraceFile(path, 1 << 20, () => ['{"first":1}']);
  assert.deepEqual(eventsIn(path), [{ first: 1 }]);
  for (let i = 0; i < 5; i++) {
    file.append([`{"a":${i}}`, '{"b":"ü"}']);
    assert.equal(eventsIn(path).length, 1 + 2 * (i + 1));
  }
  file.append([]);
  file.close();
  assert.deepEqual(eventsIn(path).at(-1), { b: 'ü' });
});

test('a device is written to, and never moved', (t) => {
  const directory = directoryOf(t);
  const path = join(directory, 'null.json');
  symlinkSync('/dev/null', path);
  const file = new TraceFile(path, 10, () => ['{"first":1}']);
  file.append(['{"a":1}']);
  file.append(['{"a":2}']);
  file.close();
  assert.deepEqual(readdirSync(directory), ['null.json']);
});

test('a file that has become too large gives way to a new one; two remain', (t) => {
  const directory = directoryOf(t);
  const path = join(directory, 'trace.json');
  const file = new TraceFile(path, 1000, () => ['{"first":1}']);
  for (let i = 0; i < 100; i++) file.append([`{"event":${i},"text":"${'x'.repeat(50)}"}`]);
  file.close();
  const events = [...eventsIn(join(directory, 'trace.1.json')), ...eventsIn(path)];
  assert.ok(readFileSync(path).length < 1200);
  assert.deepEqual(
    events.filter((event) => (event as { first?: number }).first === 1).length,
    2,
    'each begins with the opening',
  );
  assert.deepEqual((events.at(-1) as { event: number }).event, 99);
  assert.ok(!existsSync(join(directory, 'trace.2.json')));
  assert.equal(rotatedName('/a/b.json'), '/a/b.1.json');
  assert.equal(rotatedName('b'), 'b.1');
  assert.equal(rotatedName('/b.json'), '/b.1.json');
});

test('a full disk leaves the file as it was before the write', (t) => {
  const path = join(directoryOf(t), 'trace.json');
  let room = 200;
  const file = new TraceFile(path, 1 << 20, () => ['{"first":1}'], {
    write(fd, bytes, from, length, position) {
      const fits = Math.min(length, Math.max(0, room - position));
      if (fits === 0) throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' });
      return writeSync(fd, bytes, from, fits, position);
    },
  });
  file.append(['{"second":2}']);
  assert.throws(() => file.append([`{"long":"${'x'.repeat(500)}"}`]), /ENOSPC/);
  assert.deepEqual(eventsIn(path), [{ first: 1 }, { second: 2 }]);
  room = 10_000;
  file.append(['{"third":3}']);
  assert.deepEqual(eventsIn(path), [{ first: 1 }, { second: 2 }, { third: 3 }]);
  file.close();
});

test('a file is continued where it ended; what is no trace is replaced', (t) => {
  const path = join(directoryOf(t), 'trace.json');
  const append = (event: string) => {
    const file = new TraceFile(path, 1 << 20, () => ['{"first":1}'], { continues: true });
    file.append([event]);
    file.close();
  };
  append('{"second":2}');
  append('{"third":3}');
  assert.deepEqual(eventsIn(path), [{ first: 1 }, { second: 2 }, { third: 3 }]);
  writeFileSync(path, 'x');
  append('{"second":2}');
  assert.deepEqual(eventsIn(path), [{ first: 1 }, { second: 2 }]);
});

test('what cannot be opened says so', () => {
  assert.throws(() => new TraceFile('/nonexistent/trace.json', 1000, () => []), /ENOENT/);
  assert.throws(() => new TraceFile(tmpdir(), 1000, () => []), /EISDIR/);
});
