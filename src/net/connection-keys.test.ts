import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { JobSecret } from '../settings/job-secret.ts';
import { deriveKeys } from './connection-keys.ts';

const identity = { secret: JobSecret.fromText('a secret'), jobId: 'job' };
const transcript = Buffer.alloc(104, 7);

describe('the keys of a connection', () => {
  test('are the same on both sides, each side sending with the key that the other receives with', () => {
    const dialer = deriveKeys(identity, 'store', transcript, 'dialer', 'frames');
    const listener = deriveKeys(identity, 'store', transcript, 'listener', 'frames');
    assert.deepEqual(dialer.send, listener.receive);
    assert.deepEqual(dialer.receive, listener.send);
  });

  test('differ by direction, use, purpose, job, secret and connection', () => {
    const other = Buffer.alloc(104, 8);
    const pairs = [
      deriveKeys(identity, 'store', transcript, 'dialer', 'frames'),
      deriveKeys(identity, 'store', transcript, 'dialer', 'tensors'),
      deriveKeys(identity, 'watch', transcript, 'dialer', 'frames'),
      deriveKeys(identity, 'store', other, 'dialer', 'frames'),
      deriveKeys({ ...identity, jobId: 'another' }, 'store', transcript, 'dialer', 'frames'),
      deriveKeys({ ...identity, secret: JobSecret.fromText('?') }, 'store', transcript, 'dialer', 'frames'),
    ];
    const keys = pairs.flatMap(({ send, receive }) => [send.toString('hex'), receive.toString('hex')]);
    assert.equal(new Set(keys).size, keys.length);
    assert.ok(pairs.every(({ send, receive }) => send.length === 32 && receive.length === 32));
  });
});
