// The agent's words and habits, without ssh: frames and lines, the window of an output stream, the environment.

import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { randomMessage } from '../../../test/support/random-message.ts';
import { encodeFrame, ProtocolError } from '../../net/frames.ts';
import { environmentForOtherHosts, receivedEnvironment } from './forwarded-environment.ts';
import { OutputPump } from './output-pump.ts';
import {
  encodeMessage,
  MessageReader,
  maxOutputBytes,
  outputWindowBytes,
  PreambleReader,
  type Report,
} from './protocol.ts';

describe('frames', () => {
  const reports: Report[] = [
    { op: 'heartbeat' },
    { op: 'output', rank: 70_000, stream: 'stderr', bytes: Buffer.from('häl\nlo') },
    { op: 'output', rank: 0, stream: 'stdout', bytes: Buffer.alloc(0) },
    {
      op: 'started',
      pids: [
        [0, 77],
        [1, null],
      ],
    },
    { op: 'ended', rank: 3, end: { signal: 'SIGKILL' } },
  ];

  test('arrive as they were sent, in whatever pieces', () => {
    const bytes = Buffer.concat(reports.map(encodeMessage));
    for (const size of [1, 3, 7, bytes.length]) {
      const reader = new MessageReader<Report>();
      const seen: Report[] = [];
      for (let at = 0; at < bytes.length; at += size)
        seen.push(...reader.push(bytes.subarray(at, at + size)));
      assert.deepEqual(seen, reports, `pieces of ${size}`);
    }
  });

  for (const [title, bytes] of [
    ['no length', Buffer.from([0, 0, 0, 0, 0])],
    ['a length beyond all bounds', Buffer.from([0xff, 0, 0, 0, 0])],
    ['an unknown type', Buffer.from([0, 0, 0, 1, 9])],
    ['no JSON', Buffer.from([0, 0, 0, 2, 0, 123])],
    [
      'an unknown message',
      Buffer.concat([Buffer.from([0, 0, 0, 13, 0]), Buffer.from('{"op":"rise"}').subarray(0, 12)]),
    ],
    ['output of no stream', Buffer.from([0, 0, 0, 6, 1, 0, 0, 0, 0, 7])],
    ['output that is too short', Buffer.from([0, 0, 0, 2, 1, 0])],
  ] as const) {
    test(`${title} is rejected`, () => {
      assert.throws(() => new MessageReader<Report>().push(bytes), ProtocolError);
    });
  }
});

test('ten thousand random frames of an agent are messages or errors, nothing else', () => {
  const words = ['start', 'signal', 'credit', 'heartbeat', 'hello', 'ended', 'testament', 'remark'];
  const bytes = fc.uint8Array({ minLength: 1, maxLength: 40 }).map((each) => Buffer.from(each));
  const json = randomMessage('op', words).map((text) => Buffer.from(`\0${text}`));
  fc.assert(
    fc.property(fc.oneof(bytes, json), (body) => {
      try {
        const [message] = new MessageReader<Report>().push(encodeFrame(body, 10_000));
        assert.equal(typeof message?.op, 'string');
      } catch (error) {
        assert.ok(error instanceof ProtocolError, String(error));
      }
    }),
    { numRuns: 10_000 },
  );
});

describe('the lines before the frames', () => {
  test('greetings of a login shell are passed over, also without a newline, in pieces and with returns', () => {
    const text =
      'Welcome!\r\nquota 3 % horovod-agent shell\r\nhorovod-agent problem no-node /bin:/usr/bin\nx';
    const reader = new PreambleReader();
    const lines = [...text].flatMap((letter) => reader.push(Buffer.from(letter)).lines);
    assert.deepEqual(lines, [
      { word: 'shell', rest: '' },
      { word: 'problem', rest: 'no-node /bin:/usr/bin' },
    ]);
    assert.equal(reader.noise, 'Welcome!\n');
  });

  test('what follows the last line is left to the frames', () => {
    const frame = encodeMessage({ op: 'heartbeat' });
    const { frames } = new PreambleReader().push(
      Buffer.concat([Buffer.from('horovod-agent frames\n'), frame]),
    );
    assert.deepEqual(frames, frame);
  });

  test('a line without end is rejected', () => {
    assert.throws(() => new PreambleReader().push(Buffer.alloc(300_000, 'x')), ProtocolError);
  });
});

describe('an output stream', () => {
  const pump = (source: PassThrough) => {
    const sent: Buffer[] = [];
    let isOver = false;
    const ended = new Promise<void>((resolve) => source.once('close', resolve));
    const made = new OutputPump(source, {
      send: (bytes) => sent.push(bytes),
      end: () => {
        isOver = true;
      },
    });
    return { pump: made, sent, ended, length: () => Buffer.concat(sent).length, isOver: () => isOver };
  };

  test('is cut into frames and ends with its source', async () => {
    const source = new PassThrough();
    const { sent, ended, isOver } = pump(source);
    source.end(Buffer.alloc(2 * maxOutputBytes + 1));
    await ended;
    assert.deepEqual(
      sent.map(({ length }) => length),
      [maxOutputBytes, maxOutputBytes, 1],
    );
    assert.ok(isOver());
  });

  test('stops at its window until the other side has used some', async () => {
    const source = new PassThrough({ highWaterMark: 4 * outputWindowBytes });
    const { pump: made, length, ended } = pump(source);
    const piece = 64 * 1024;
    const pieces = (2 * outputWindowBytes) / piece;
    for (let i = 0; i < pieces; i++) source.write(Buffer.alloc(piece));
    source.end();
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(length(), outputWindowBytes);
    made.credit(piece);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(length(), outputWindowBytes + piece);
    made.credit(outputWindowBytes);
    await ended;
    assert.equal(length(), 2 * outputWindowBytes);
  });

  test('that somebody else holds open is ended when it is quiet, but not while the window is full', async () => {
    const source = new PassThrough({ highWaterMark: 4 * outputWindowBytes });
    const { pump: made, isOver, ended } = pump(source);
    source.write(Buffer.alloc(outputWindowBytes));
    await new Promise((resolve) => setImmediate(resolve));
    made.endWhenQuiet(20);
    await sleep(200);
    assert.equal(source.destroyed, false);
    made.credit(1);
    await ended;
    assert.ok(isOver());
  });
});

describe('the environment of ranks on other hosts', () => {
  const driver = {
    PATH: '/opt/node/bin:/usr/bin',
    LANG: 'C.UTF-8',
    HOROVOD_LOG_LEVEL: 'debug',
    MY_DATA: '/data',
    HOME: '/home/me',
    PWD: '/x',
    SSH_AUTH_SOCK: '/s',
    TERM: 'xterm',
    DISPLAY: ':0',
    XDG_RUNTIME_DIR: '/r',
    SLURM_PROCID: '0',
    OMPI_COMM_WORLD_RANK: '0',
    PMI_RANK: '0',
    CUDA_VISIBLE_DEVICES: '1',
    'BASH_FUNC_x%%': '() { :; }',
    _HOROVOD_SECRET_KEY: 'ab',
    HOROVOD_RANK: '3',
    OMPI_MCA_btl: 'tcp',
  };

  test('is that of the launcher but for what belongs to its machine, login or job', () => {
    assert.deepEqual(Object.keys(environmentForOtherHosts(driver)).sort(), [
      ...['HOROVOD_LOG_LEVEL', 'LANG', 'MY_DATA', 'OMPI_MCA_btl', 'PATH'],
    ]);
  });

  test('--env-allow names all that goes, also what usually does not; --env-deny wins', () => {
    const rules = { allow: ['MY_*', 'TERM', 'LANG'], deny: ['LANG'] };
    assert.deepEqual(Object.keys(environmentForOtherHosts(driver, rules)).sort(), [
      ...['HOROVOD_LOG_LEVEL', 'MY_DATA', 'PATH', 'TERM'],
    ]);
  });

  test('lies over that of the login there, and programs of both are found', () => {
    const own = { PATH: '/usr/bin:/snap/bin', HOME: '/root', LANG: 'de_DE', SSH_CONNECTION: 'a b c d' };
    assert.deepEqual(
      receivedEnvironment(own, { PATH: '/opt/node/bin:/usr/bin', LANG: 'C' }, () => true),
      {
        PATH: '/opt/node/bin:/usr/bin:/snap/bin',
        HOME: '/root',
        LANG: 'C',
      },
    );
  });

  test('names no directory or certificate that is not there', () => {
    const forwarded = { TMPDIR: '/scratch', NODE_EXTRA_CA_CERTS: '/ca.pem', DATA: '/missing' };
    assert.deepEqual(
      receivedEnvironment({ TMPDIR: '/tmp' }, forwarded, () => false),
      {
        TMPDIR: '/tmp',
        DATA: '/missing',
      },
    );
    assert.deepEqual(
      receivedEnvironment({}, forwarded, () => true),
      forwarded,
    );
  });
});
