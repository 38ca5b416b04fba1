// The mutual challenge at the start of every connection to a store. Sizes are fixed, so that a stranger can make
// the other side read a few bytes and no more:
//   server → client   magic 4 · server nonce 32
//   client → server   magic 4 · role 1 · rank 4 · client nonce 32 · proof 32
//   server → client   verdict 1 · proof 32
// A proof is an HMAC with the job's secret over direction, job id, role, rank and both nonces. Nonces are new for
// every connection: recorded bytes prove nothing, and neither side can send the other's proof back to it.

import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { JobSecret } from '../settings/job-secret.ts';

const magic = Buffer.from('HVR1');
const nonceBytes = 32;
const proofBytes = 32;

export const helloBytes: number = magic.length + nonceBytes;
export const answerBytes: number = magic.length + 1 + 4 + nonceBytes + proofBytes;
export const verdictBytes: number = 1 + proofBytes;

/** Roles are part of the proof, so that a connection made for one purpose is good for no other. */
export const roleRank = 0;

export interface Identity {
  readonly secret: JobSecret;
  readonly jobId: string;
}

export function createHello(): Buffer {
  return Buffer.concat([magic, randomBytes(nonceBytes)]);
}

/** Undefined if the other side is no store. */
export function createAnswer(identity: Identity, rank: number, hello: Buffer): Buffer | undefined {
  if (hello.length !== helloBytes || !hello.subarray(0, magic.length).equals(magic)) return undefined;
  const claim = Buffer.alloc(5);
  claim.writeUInt8(roleRank, 0);
  claim.writeUInt32BE(rank, 1);
  const nonce = randomBytes(nonceBytes);
  const proof = prove('client', identity, claim, hello.subarray(magic.length), nonce);
  return Buffer.concat([magic, claim, nonce, proof]);
}

/** Who has answered, and the verdict to send back. */
export function judgeAnswer(
  identity: Identity,
  hello: Buffer,
  answer: Buffer,
  ranks: number,
): { rank: number | undefined; verdict: Buffer } {
  const { claim, nonce, proof } = splitAnswer(answer);
  const serverNonce = hello.subarray(magic.length);
  const isProven =
    answer.subarray(0, magic.length).equals(magic) &&
    timingSafeEqual(proof, prove('client', identity, claim, serverNonce, nonce));
  const rank = claim.readUInt32BE(1);
  if (!isProven || claim.readUInt8(0) !== roleRank || rank >= ranks) {
    // Random where a proof would be: a stranger learns nothing from it.
    return { rank: undefined, verdict: Buffer.concat([Buffer.from([0]), randomBytes(proofBytes)]) };
  }
  const ourProof = prove('server', identity, claim, serverNonce, nonce);
  return { rank, verdict: Buffer.concat([Buffer.from([1]), ourProof]) };
}

export type Verdict = 'welcome' | 'refused' | 'impostor';

/** 'refused': the server did not accept us. 'impostor': it did, but does not know the secret itself. */
export function readVerdict(identity: Identity, hello: Buffer, answer: Buffer, verdict: Buffer): Verdict {
  if (verdict.readUInt8(0) !== 1) return 'refused';
  const { claim, nonce } = splitAnswer(answer);
  const expected = prove('server', identity, claim, hello.subarray(magic.length), nonce);
  return timingSafeEqual(verdict.subarray(1), expected) ? 'welcome' : 'impostor';
}

function splitAnswer(answer: Buffer): { claim: Buffer; nonce: Buffer; proof: Buffer } {
  const claimAt = magic.length;
  const nonceAt = claimAt + 5;
  return {
    claim: answer.subarray(claimAt, nonceAt),
    nonce: answer.subarray(nonceAt, nonceAt + nonceBytes),
    proof: answer.subarray(nonceAt + nonceBytes),
  };
}

function prove(
  direction: 'client' | 'server',
  { secret, jobId }: Identity,
  claim: Buffer,
  serverNonce: Buffer,
  clientNonce: Buffer,
): Buffer {
  return secret.hmac('horovod rendezvous', direction, jobId, claim, serverNonce, clientNonce);
}
