import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { randomMessage } from '../../../test/support/random-message.ts';
import { ProtocolError } from '../../net/frames.ts';
import { encodeMessage, parseMessage, type WatchMessage } from './messages.ts';

const departure = { host: 'host2', pid: 7, hasLeft: false };
const words = { name: 'TypeError', message: 'boom', stack: 'TypeError: boom' };

test('a message arrives as it was sent', () => {
  const messages: WatchMessage[] = [
    { type: 'beat' },
    { type: 'goodbye' },
    { type: 'failure', record: { code: 'ERR_HVD_PEER_LOST', message: 'rank 1 …', rank: 1, cause: words } },
    { type: 'departure', rank: 3, departure: { ...departure, exit: { code: 3 }, lastWords: words } },
    {
      type: 'departure',
      rank: 3,
      departure: { ...departure, exit: { signal: 'SIGKILL' }, lastWords: undefined },
    },
    { type: 'departure', rank: 3, departure: { ...departure, exit: undefined, lastWords: undefined } },
  ];
  const bodies = messages.map((message) => Buffer.from(encodeMessage(message)));
  assert.deepEqual(bodies.map(parseMessage), messages);
});

test('what is no message is none', () => {
  for (const value of [
    ...[1, null, [], {}, { type: 'order' }, { type: 'failure' }, { type: 'departure', rank: 1 }],
    { type: 'failure', record: { code: 'ERR_OTHER', message: '' } },
    { type: 'failure', record: { code: 'ERR_HVD_PEER_LOST', message: '', rank: '1' } },
    { type: 'departure', rank: -1, departure },
    { type: 'departure', rank: 1.5, departure },
    { type: 'departure', rank: 1, departure: { ...departure, pid: 'x' } },
    { type: 'departure', rank: 1, departure: { ...departure, hasLeft: 1 } },
    { type: 'departure', rank: 1, departure: { ...departure, exit: { code: 256 } } },
    { type: 'departure', rank: 1, departure: { ...departure, exit: { signal: 'rm -rf' } } },
    { type: 'departure', rank: 1, departure: { ...departure, exit: 'none' } },
    { type: 'departure', rank: 1, departure: { ...departure, lastWords: { name: 1 } } },
  ]) {
    const text = JSON.stringify(value);
    assert.throws(() => parseMessage(Buffer.from(text)), ProtocolError, text);
  }
  assert.throws(() => parseMessage(Buffer.from('{')), ProtocolError);
});

test('ten thousand random texts are messages or errors, nothing else', () => {
  const words = ['beat', 'goodbye', 'collect', 'clock?', 'clock', 'events', 'failure', 'departure', 'status'];
  fc.assert(
    fc.property(randomMessage('type', words), (text) => {
      try {
        assert.ok(words.includes(parseMessage(Buffer.from(text)).type));
      } catch (error) {
        assert.ok(error instanceof ProtocolError, String(error));
      }
    }),
    { numRuns: 10_000 },
  );
});
