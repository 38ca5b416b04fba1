import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { randomMessage } from '../../../test/support/random-message.ts';
import { HorovodError } from '../../errors.ts';
import { ProtocolError } from '../../net/frames.ts';
import {
  decodeFailure,
  encodeFailure,
  encodeMessage,
  parseRequest,
  parseResponse,
  type Request,
  type Response,
} from './messages.ts';

test('messages arrive as they were sent', () => {
  const requests: Request[] = [
    { op: 'set', id: 0, key: 'k', value: '€😀' },
    { op: 'get', id: 1, key: 'k' },
    { op: 'get', id: 2, key: 'k', from: 3 },
    { op: 'cancel', id: 2 },
    { op: 'leave', id: 3 },
  ];
  const responses: Response[] = [
    { op: 'value', id: 0, value: '' },
    { op: 'done', id: 1 },
    { op: 'failed', id: 2, failure: 'x' },
  ];
  const bodies = (messages: (Request | Response)[]) =>
    messages.map((message) => Buffer.from(encodeMessage(message)));
  assert.deepEqual(bodies(requests).map(parseRequest), requests);
  assert.deepEqual(bodies(responses).map(parseResponse), responses);
});

test('ten thousand random texts are messages or errors, nothing else', () => {
  const words = ['set', 'get', 'cancel', 'leave', 'value', 'done', 'failed'];
  fc.assert(
    fc.property(randomMessage('op', words), (text) => {
      for (const parse of [parseRequest, parseResponse]) {
        try {
          assert.ok(Number.isSafeInteger(parse(Buffer.from(text)).id));
        } catch (error) {
          assert.ok(error instanceof ProtocolError, String(error));
        }
      }
    }),
    { numRuns: 10_000 },
  );
});

test('an error arrives with its code and details, shortened where it is long; what is none is rejected', () => {
  const details = { rank: 3, pid: 7, signal: 'SIGKILL', cause: new TypeError('why') };
  const error = decodeFailure(encodeFailure(new HorovodError('ERR_HVD_PEER_LOST', 'gone', details)));
  const { code, message, rank, pid, signal } = error;
  assert.deepEqual(
    { code, message, rank, pid, signal },
    { code: 'ERR_HVD_PEER_LOST', message: 'ERR_HVD_PEER_LOST: gone', rank: 3, pid: 7, signal: 'SIGKILL' },
  );
  assert.equal((error.cause as Error).message, 'why');
  assert.ok(encodeFailure(new Error('x'.repeat(100_000))).length <= 4096);
  assert.equal(decodeFailure(encodeFailure('a text')).code, 'ERR_HVD_RENDEZVOUS');
  assert.throws(() => decodeFailure('{"code":"ERR_OTHER","message":""}'), ProtocolError);
});
