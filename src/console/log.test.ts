import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createLog, type LogStyle } from './log.ts';

const levels = ['trace', 'debug', 'info', 'warning', 'error', 'fatal'] as const;
const now = () => new Date(Date.UTC(2026, 10, 16, 5, 38, 8, 7));

/** A log of rank 3, and the lines it has written. */
function logTo(style: Partial<LogStyle>, isDebugged: (name: string) => boolean = () => false) {
  const lines: string[] = [];
  const sink = (line: string) => lines.push(line);
  return {
    lines,
    log: createLog({ logLevel: 'warning', logTime: false, ...style }, 3, { sink, now, isDebugged }),
  };
}

test('the log writes what is at or above its level, with the rank', () => {
  const { log, lines } = logTo({});
  for (const level of levels) log.write(level, level);
  assert.deepEqual(lines, [
    '[horovod warning] rank 3: warning',
    '[horovod error] rank 3: error',
    '[horovod fatal] rank 3: fatal',
  ]);
});

test('lines begin with the time', () => {
  const { log, lines } = logTo({ logTime: true });
  log.write('error', 'so it is');
  assert.deepEqual(lines, ['2026-11-16T05:38:08.007Z [horovod error] rank 3: so it is']);
});

test('as JSON a line is an object, with what else is known', () => {
  const { log, lines } = logTo({ logFormat: 'json', logTime: true });
  log.write('error', 'two\nlines "here"', { topic: 'transport', waitedMs: 5 });
  assert.equal(lines.length, 1);
  assert.deepEqual(JSON.parse(lines[0] as string), {
    time: '2026-11-16T05:38:08.007Z',
    level: 'error',
    rank: 3,
    message: 'two\nlines "here"',
    topic: 'transport',
    waitedMs: 5,
  });
});

test('as JSON without the time there is none', () => {
  const { log, lines } = logTo({ logFormat: 'json' });
  log.write('error', 'text');
  assert.deepEqual(JSON.parse(lines[0] as string), { level: 'error', rank: 3, message: 'text' });
});

test('NODE_DEBUG=horovod turns on debug lines of all topics, but not trace', () => {
  const { log, lines } = logTo({}, (name) => name === 'horovod');
  for (const level of levels.slice(0, 3)) log.write(level, level);
  log.write('debug', 'of the transport', { topic: 'transport' });
  assert.deepEqual(lines, ['[horovod debug] rank 3: debug', '[horovod debug] rank 3: of the transport']);
});

test('NODE_DEBUG=horovod:transport turns on those of the transports only', () => {
  const { log, lines } = logTo({}, (name) => name === 'horovod:transport');
  log.write('debug', 'no topic');
  log.write('debug', 'rendezvous', { topic: 'rendezvous' });
  log.write('debug', 'transport', { topic: 'transport' });
  assert.deepEqual(lines, ['[horovod debug] rank 3: transport']);
});

test('NODE_DEBUG is read the way Node reads it', () => {
  const log = fileURLToPath(new URL('./log.js', import.meta.url));
  const script = `import { createLog } from ${JSON.stringify(log)};
    const log = createLog({ logLevel: 'warning', logTime: false }, 0);
    log.write('debug', 'one', { topic: 'engine' });
    log.write('debug', 'two', { topic: 'transport' });`;
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, NODE_DEBUG: 'HOROVOD:EN*' },
    encoding: 'utf8',
  });
  assert.match(stderr, /^\[horovod debug\] rank 0: one$/m);
  assert.doesNotMatch(stderr, /two/);
});

test('what a user waits to hear is shown at every level but those for errors only', () => {
  for (const logLevel of levels) {
    const { log, lines } = logTo({ logLevel });
    log.tell('halfway');
    const isShown = logLevel !== 'error' && logLevel !== 'fatal';
    assert.deepEqual(lines, isShown ? ['[horovod info] rank 3: halfway'] : []);
  }
});
