// The mutual challenge at the start of every connection between two ranks. As that of the store, but both sides are
// ranks and the connection is for one channel. Sizes are fixed, so that a stranger can make the other side read a few
// bytes and no more:
//   listener → dialer   magic 4 · listener's nonce 32
//   dialer → listener   magic 4 · own rank 4 · rank wanted 4 · channel 32 · dialer's nonce 32 · proof 32
//   listener → dialer   verdict 1 · listener's rank 4 · proof 32
//   dialer → listener   'taken' 1    (this connection, of all those tried, is the one)
//   listener → dialer   'done' 1     (somebody here has asked for the channel)
// The channel goes as an HMAC of its name. After 'done' no byte is sent by the listener's side before the dialer has
// sent its ready byte: so neither Node reads a byte that is meant for a native engine.

import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { JobSecret } from '../../settings/job-secret.ts';

const magic = Buffer.from('HVM1');
const digestBytes = 32;
const claimBytes = 4 + 4 + digestBytes;

export const meshHelloBytes: number = magic.length + digestBytes;
export const meshAnswerBytes: number = magic.length + claimBytes + 2 * digestBytes;
export const meshVerdictBytes: number = 1 + 4 + digestBytes;
export const takenByte = 0x54;
export const doneByte = 0x44;
/** The first byte a dialer's owner sends; a listener's owner sends nothing before it has read it. */
export const readyByte = 0x52;

export interface MeshIdentity {
  readonly secret: JobSecret;
  readonly jobId: string;
}

/** Names `channel` to those who know the secret. */
export function channelDigest({ secret, jobId }: MeshIdentity, channel: string): Buffer {
  return secret.hmac('horovod mesh channel', jobId, channel);
}

export function createMeshHello(): Buffer {
  return Buffer.concat([magic, randomBytes(digestBytes)]);
}

/** False if what begins with `bytes` cannot become a hello. */
export function isMeshHelloStart(bytes: Buffer): boolean {
  const length = Math.min(bytes.length, magic.length);
  return bytes.subarray(0, length).equals(magic.subarray(0, length));
}

export interface MeshClaim {
  readonly rank: number;
  readonly wanted: number;
  readonly channel: Buffer;
}

/** To a hello that looks like one. */
export function createMeshAnswer(
  identity: MeshIdentity,
  { rank, wanted, channel }: MeshClaim,
  hello: Buffer,
): Buffer {
  const claim = Buffer.alloc(8);
  claim.writeUInt32BE(rank, 0);
  claim.writeUInt32BE(wanted, 4);
  const claimed = Buffer.concat([claim, channel]);
  const nonce = randomBytes(digestBytes);
  return Buffer.concat([
    ...[magic, claimed, nonce],
    prove(identity, 'dialer', claimed, hello.subarray(magic.length), nonce),
  ]);
}

/** What the dialer wants, and the verdict to send back; no claim if it is a stranger or wants another rank. */
export function judgeMeshAnswer(
  identity: MeshIdentity,
  ownRank: number,
  hello: Buffer,
  answer: Buffer,
): { claim: MeshClaim | undefined; verdict: Buffer } {
  const { claimed, nonce, proof } = splitAnswer(answer);
  const ownNonce = hello.subarray(magic.length);
  const isProven =
    answer.subarray(0, magic.length).equals(magic) &&
    timingSafeEqual(proof, prove(identity, 'dialer', claimed, ownNonce, nonce));
  // Random where a rank and a proof would be: a stranger learns nothing from it.
  if (!isProven) {
    return { claim: undefined, verdict: Buffer.concat([Buffer.from([0]), randomBytes(4 + digestBytes)]) };
  }
  const wanted = claimed.readUInt32BE(4);
  const head = Buffer.alloc(5);
  head.writeUInt8(wanted === ownRank ? 1 : 2, 0);
  head.writeUInt32BE(ownRank, 1);
  const ownProof = prove(identity, 'listener', Buffer.concat([head, claimed]), ownNonce, nonce);
  const claim = { rank: claimed.readUInt32BE(0), wanted, channel: Buffer.from(claimed.subarray(8)) };
  return { claim: wanted === ownRank ? claim : undefined, verdict: Buffer.concat([head, ownProof]) };
}

export type MeshVerdict =
  | { readonly kind: 'welcome' }
  /** It does not accept our proof, or cannot prove itself. */
  | { readonly kind: 'stranger' }
  /** It is of our job, but somebody else. */
  | { readonly kind: 'other rank'; readonly rank: number };

export function readMeshVerdict(
  identity: MeshIdentity,
  hello: Buffer,
  answer: Buffer,
  verdict: Buffer,
): MeshVerdict {
  const { claimed, nonce } = splitAnswer(answer);
  const head = verdict.subarray(0, 5);
  const expected = prove(
    identity,
    'listener',
    Buffer.concat([head, claimed]),
    hello.subarray(magic.length),
    nonce,
  );
  if (!timingSafeEqual(verdict.subarray(5), expected)) return { kind: 'stranger' };
  const [code, rank] = [head.readUInt8(0), head.readUInt32BE(1)];
  return code === 1 && rank === claimed.readUInt32BE(4) ? { kind: 'welcome' } : { kind: 'other rank', rank };
}

function splitAnswer(answer: Buffer): { claimed: Buffer; nonce: Buffer; proof: Buffer } {
  const nonceAt = magic.length + claimBytes;
  return {
    claimed: answer.subarray(magic.length, nonceAt),
    nonce: answer.subarray(nonceAt, nonceAt + digestBytes),
    proof: answer.subarray(nonceAt + digestBytes),
  };
}

function prove(
  { secret, jobId }: MeshIdentity,
  direction: 'dialer' | 'listener',
  claimed: Buffer,
  listenerNonce: Buffer,
  dialerNonce: Buffer,
): Buffer {
  return secret.hmac('horovod mesh', direction, jobId, claimed, listenerNonce, dialerNonce);
}
