// The mutual challenge at the start of every connection of a job. The *listener* waits for connections; the *dialer*
// makes them and *claims* who it is, whom it wants and what for. Both prove that they know the job's secret.
//   listener → dialer   magic 3, version 1 · listener's nonce 32
//   dialer → listener   magic 3, version 1 · from 4 · to 4 · channel 32 · dialer's nonce 32 · proof 32
//   listener → dialer   verdict 1 · listener's number 4 · proof 32
//   dialer → listener   'taken' 1   of all connections that the dialer has tried, this is the one it uses
//   listener → dialer   'done' 1    the connection has an owner on the listener's side
// Sizes are fixed and nobody may speak out of turn: a stranger can make the other side read a few bytes and no more. A
// proof is an HMAC with the secret over purpose, direction, job id, claim and both nonces. Nonces are new for every
// connection, so recorded bytes prove nothing, and neither side can send the other's proof back to it. What follows is
// bound to the handshake by the keys that are derived from it (connection-keys.ts).
//
// The version is that of everything on the wire. It changes with the handshake, with frames and with messages, so that two
// versions of the package that do not understand each other say so.
//
// Each side is a generator that says and hears bytes, and knows nothing of sockets; converse() connects it to one.

import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import type { JobSecret } from '../settings/job-secret.ts';

export interface Identity {
  readonly secret: JobSecret;
  readonly jobId: string;
}

/** Part of every proof: a connection made for one purpose is good for no other. */
export type Purpose = 'store' | 'ranks' | 'watch' | 'data' | 'agents';

export interface Claim {
  readonly purpose: Purpose;
  /** The dialer's rank, or another number by which the listener knows it. */
  readonly from: number;
  /** The listener's number. */
  readonly to: number;
  /** What the connection is for, where two sides have several. */
  readonly channel: string;
}

/** A claim as the listener sees it: channels travel as digests. */
export interface ReceivedClaim {
  readonly from: number;
  readonly to: number;
  readonly channel: Buffer;
}

export type Verdict =
  /** `transcript`: claim and both nonces, from which the keys of the connection are derived. */
  | { readonly kind: 'welcome'; readonly transcript: Buffer }
  /** It does not speak this protocol. */
  | { readonly kind: 'stranger' }
  /** It does not believe us: it belongs to another job, or has another secret. */
  | { readonly kind: 'rejected' }
  /** It cannot prove that it knows the secret. */
  | { readonly kind: 'impostor' }
  /** It belongs to the job, but is not the one we want, or does not want us. */
  | { readonly kind: 'other'; readonly number: number }
  /** It has a connection from one that claims to be us. */
  | { readonly kind: 'taken' }
  /** It is of a version that speaks otherwise. */
  | { readonly kind: 'version'; readonly theirs: number; readonly ours: number };

/** 'taken': not while it has another connection of the same dialer. */
export type Acceptance = 'yes' | 'no' | 'taken';

export type Judgement =
  | { readonly kind: 'member'; readonly claim: ReceivedClaim; readonly transcript: Buffer }
  /** `farewell` is the last to send. */
  | { readonly kind: 'rejected'; readonly farewell: Buffer }
  | { readonly kind: 'stranger' };

/** One side: says something, and goes on when it has heard so many bytes. */
export type Talk<Result> = Generator<{ readonly say?: Buffer; readonly hear: number }, Result, Buffer>;

const magic = Buffer.from('HVD');
/** Counted from the digit '1'. */
const wireVersion = 2;
const greeting = Buffer.concat([magic, Buffer.from(String(wireVersion))]);
const nonceBytes = 32;
const proofBytes = 32;
const claimBytes = 4 + 4 + 32;
const verdictHeadBytes = 1 + 4;
const takenByte = 0x54;
const doneByte = 0x44;
const verdicts = { rejected: 0, yes: 1, no: 2, taken: 3 } as const;

/** Names `channel` to those who know the secret. */
export function channelDigest({ secret, jobId }: Identity, channel: string): Buffer {
  return secret.hmac('horovod channel', jobId, channel);
}

/** The dialer's side, up to the verdict. */
export function* introduce(identity: Identity, claim: Claim): Talk<Verdict> {
  const theirGreeting = yield { hear: greeting.length };
  if (!theirGreeting.subarray(0, magic.length).equals(magic)) return { kind: 'stranger' };
  const theirs = theirGreeting.readUInt8(magic.length) - 0x30;
  if (theirs !== wireVersion) return { kind: 'version', theirs, ours: wireVersion };
  const listenerNonce = yield { hear: nonceBytes };
  const ours = Buffer.concat([encodeClaim(identity, claim), randomBytes(nonceBytes)]);
  const transcript = Buffer.concat([listenerNonce, ours]);
  const proof = prove(identity, claim.purpose, 'dialer', transcript);
  const verdict = yield {
    say: Buffer.concat([greeting, ours, proof]),
    hear: verdictHeadBytes + proofBytes,
  };
  const head = verdict.subarray(0, verdictHeadBytes);
  const [code, number] = [head.readUInt8(0), head.readUInt32BE(1)];
  if (code === verdicts.rejected) return { kind: 'rejected' };
  const theirProof = prove(identity, claim.purpose, 'listener', transcript, head);
  if (!timingSafeEqual(verdict.subarray(verdictHeadBytes), theirProof)) return { kind: 'impostor' };
  if (number !== claim.to || code === verdicts.no) return { kind: 'other', number };
  return code === verdicts.yes ? { kind: 'welcome', transcript } : { kind: 'taken' };
}

/** The dialer's side after a welcome: takes the connection and waits for its owner on the other side. */
export function* take(): Talk<{ readonly kind: 'done' | 'stranger' }> {
  const done = yield { say: Buffer.from([takenByte]), hear: 1 };
  return { kind: done[0] === doneByte ? 'done' : 'stranger' };
}

/** The listener's last word: from then on the connection belongs to the owners on both sides. */
export const done: Buffer = Buffer.from([doneByte]);

/** The listener's side. */
export function* challenge(
  identity: Identity,
  purpose: Purpose,
  number: number,
  accepts: (claim: ReceivedClaim) => Acceptance = () => 'yes',
): Talk<Judgement> {
  const listenerNonce = randomBytes(nonceBytes);
  const theirGreeting = yield { say: Buffer.concat([greeting, listenerNonce]), hear: greeting.length };
  if (!theirGreeting.equals(greeting)) return { kind: 'stranger' };
  const answer = yield { hear: claimBytes + nonceBytes + proofBytes };
  const transcript = Buffer.concat([listenerNonce, answer.subarray(0, -proofBytes)]);
  const theirProof = answer.subarray(-proofBytes);
  if (!timingSafeEqual(theirProof, prove(identity, purpose, 'dialer', transcript))) {
    // Random where a number and a proof would be: a stranger learns nothing from it.
    const nothing = randomBytes(verdictHeadBytes + proofBytes);
    nothing.writeUInt8(verdicts.rejected, 0);
    return { kind: 'rejected', farewell: nothing };
  }
  const claim = decodeClaim(answer);
  const acceptance = claim.to === number ? accepts(claim) : 'no';
  const head = Buffer.alloc(verdictHeadBytes);
  head.writeUInt8(verdicts[acceptance], 0);
  head.writeUInt32BE(number, 1);
  const verdict = Buffer.concat([head, prove(identity, purpose, 'listener', transcript, head)]);
  if (acceptance !== 'yes') return { kind: 'rejected', farewell: verdict };
  const taken = yield { say: verdict, hear: 1 };
  return taken[0] === takenByte ? { kind: 'member', claim, transcript } : { kind: 'stranger' };
}

/** Lets `talk` have its say on `socket`. When `onEnd` is called, no byte beyond the talk has been read. */
export function converse<Result>(
  socket: Socket,
  talk: Talk<Result>,
  onEnd: (result: Result | { readonly kind: 'stranger' }) => void,
): void {
  let received: Buffer = Buffer.alloc(0);
  let wanted = 0;
  let isOver = false;
  const end = (result: Result | { readonly kind: 'stranger' }) => {
    isOver = true;
    socket.off('data', onData);
    onEnd(result);
  };
  const go = ({ done: isDone, value }: ReturnType<typeof talk.next>) => {
    const speaks = isDone === true || value.say !== undefined;
    if (speaks && received.length > 0) end({ kind: 'stranger' });
    else if (isDone === true) end(value);
    else {
      if (value.say !== undefined) socket.write(value.say);
      wanted = value.hear;
    }
  };
  const onData = (piece: Buffer) => {
    received = Buffer.concat([received, piece]);
    while (!isOver && received.length >= wanted) {
      const heard = received.subarray(0, wanted);
      received = received.subarray(wanted);
      go(talk.next(heard));
    }
  };
  socket.on('data', onData);
  go(talk.next());
}

function encodeClaim(identity: Identity, { from, to, channel }: Claim): Buffer {
  const numbers = Buffer.alloc(8);
  numbers.writeUInt32BE(from, 0);
  numbers.writeUInt32BE(to, 4);
  return Buffer.concat([numbers, channelDigest(identity, channel)]);
}

function decodeClaim(bytes: Buffer): ReceivedClaim {
  return { from: bytes.readUInt32BE(0), to: bytes.readUInt32BE(4), channel: bytes.subarray(8, claimBytes) };
}

function prove(
  { secret, jobId }: Identity,
  purpose: Purpose,
  direction: 'dialer' | 'listener',
  ...parts: readonly Buffer[]
): Buffer {
  return secret.hmac('horovod handshake', purpose, direction, jobId, ...parts);
}
