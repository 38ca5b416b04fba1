// Both sides of the handshake, played against each other without sockets; and what the listener and the dialer make of
// those who do not play along.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { JobSecret } from '../settings/job-secret.ts';
import {
  type Acceptance,
  type Claim,
  challenge,
  channelDigest,
  type Identity,
  introduce,
  type Judgement,
  type Verdict,
} from './handshake.ts';

const identity: Identity = { secret: JobSecret.generate(), jobId: 'job-1' };
const claim: Claim = { purpose: 'ranks', from: 3, to: 1, channel: 'a' };

interface Play {
  readonly identity?: Identity;
  readonly claim?: Claim;
  readonly number?: number;
  readonly accepts?: () => Acceptance;
  /** What becomes of a message: 0 the hello, 1 the answer, 2 the verdict. */
  readonly alter?: (message: Buffer, which: number) => Buffer;
}

interface Outcome {
  readonly verdict: Verdict;
  /** Undefined: the listener still waits for 'taken'. */
  readonly judgement: Judgement | undefined;
  readonly messages: readonly Buffer[];
}

/** What both sides end with, and what went over the wire. */
function play(options: Play = {}): Outcome {
  const { alter = (message: Buffer) => message, number = 1, accepts } = options;
  const messages: Buffer[] = [];
  const send = (message: Buffer) => {
    const sent = alter(Buffer.from(message), messages.length);
    messages.push(message);
    return sent;
  };
  const listener = challenge(identity, 'ranks', number, accepts);
  const dialer = introduce(options.identity ?? identity, options.claim ?? claim);
  const greeting = listener.next();
  assert.ok(!greeting.done);
  const hello = send(greeting.value.say as Buffer);
  dialer.next();
  let step = dialer.next(hello.subarray(0, 4));
  if (!step.done) step = dialer.next(hello.subarray(4));
  if (step.done) return { verdict: step.value, judgement: undefined, messages };
  const answer = send(step.value.say as Buffer);
  let judged = listener.next(answer.subarray(0, 4));
  if (!judged.done) judged = listener.next(answer.subarray(4));
  const judgement = judged.done ? judged.value : undefined;
  const said = judged.done
    ? judgement?.kind === 'rejected'
      ? judgement.farewell
      : undefined
    : judged.value.say;
  if (said === undefined) return { verdict: { kind: 'stranger' }, judgement, messages };
  const end = dialer.next(send(said));
  assert.ok(end.done);
  if (!judged.done && end.value.kind === 'welcome') {
    const taken = listener.next(Buffer.from('T'));
    assert.ok(taken.done);
    return { verdict: end.value, judgement: taken.value, messages };
  }
  return { verdict: end.value, judgement, messages };
}

describe('two sides of one job', () => {
  test('believe each other, and have the same transcript, which is new for every connection', () => {
    const { verdict, judgement } = play();
    assert.ok(verdict.kind === 'welcome' && judgement?.kind === 'member');
    assert.deepEqual(judgement.claim, { from: 3, to: 1, channel: channelDigest(identity, 'a') });
    assert.deepEqual(judgement.transcript, verdict.transcript);
    const again = play().verdict;
    assert.ok(again.kind === 'welcome');
    assert.notDeepEqual(again.transcript, verdict.transcript);
  });

  test('learn that the other is somebody else, or does not want them', () => {
    assert.deepEqual(play({ number: 5 }).verdict, { kind: 'other', number: 5 });
    assert.deepEqual(play({ accepts: () => 'no' }).verdict, { kind: 'other', number: 1 });
    assert.deepEqual(play({ accepts: () => 'taken' }).verdict, { kind: 'taken' });
    assert.equal(play({ number: 5 }).judgement?.kind, 'rejected');
  });
});

describe('a stranger', () => {
  test('with another secret, job or purpose is rejected, and sees only random bytes', () => {
    const strangers = [
      { identity: { ...identity, secret: JobSecret.generate() } },
      { identity: { ...identity, jobId: 'job-2' } },
      { claim: { ...claim, purpose: 'store' } as const },
    ];
    for (const stranger of strangers) {
      const [one, other] = [play(stranger), play(stranger)];
      assert.deepEqual(one.verdict, { kind: 'rejected' });
      assert.equal(one.judgement?.kind, 'rejected');
      const [first, second] = [one, other].map(({ messages }) => messages[2] as Buffer);
      assert.equal(first?.length, 37);
      assert.notDeepEqual(first?.subarray(1), second?.subarray(1));
    }
  });

  test('who changes one bit of any message gets nothing', () => {
    const lengths = play().messages.map(({ length }) => length);
    assert.deepEqual(lengths, [36, 108, 37]);
    for (const [which, length] of lengths.entries()) {
      for (let at = 0; at < length; at++) {
        const { verdict, judgement } = play({
          alter(message, place) {
            if (place === which) message.writeUInt8(message.readUInt8(at) ^ 1, at);
            return message;
          },
        });
        assert.notEqual(verdict.kind, 'welcome', `byte ${at} of message ${which}`);
        assert.notEqual(judgement?.kind, 'member', `byte ${at} of message ${which}`);
      }
    }
  });

  test('who repeats a recorded answer is rejected: the challenge is another one', () => {
    const recorded = play().messages[1] as Buffer;
    const { judgement } = play({ alter: (message, which) => (which === 1 ? recorded : message) });
    assert.equal(judgement?.kind, 'rejected');
  });

  test("who sends the dialer's proof back proves nothing", () => {
    let answer: Buffer = Buffer.alloc(0);
    const echo = (message: Buffer, which: number) => {
      if (which === 1) answer = message;
      return which === 2 ? Buffer.concat([message.subarray(0, 5), answer.subarray(-32)]) : message;
    };
    assert.deepEqual(play({ alter: echo }).verdict, { kind: 'impostor' });
  });

  test('who says something else than a hello or an answer is none of ours', () => {
    const [dialer, listener] = [introduce(identity, claim), challenge(identity, 'ranks', 1)];
    dialer.next();
    assert.deepEqual(dialer.next(Buffer.from('HTTP')).value, { kind: 'stranger' });
    listener.next();
    assert.deepEqual(listener.next(Buffer.from('GET ')).value, { kind: 'stranger' });
  });

  test('of another version of the package is recognised as such', () => {
    const [dialer, listener] = [introduce(identity, claim), challenge(identity, 'ranks', 1)];
    dialer.next();
    assert.deepEqual(dialer.next(Buffer.from('HVD1')).value, { kind: 'version', theirs: 1, ours: 2 });
    listener.next();
    assert.deepEqual(listener.next(Buffer.from('HVD1')).value, { kind: 'stranger' });
  });
});
