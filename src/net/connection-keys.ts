// The keys of one connection, derived from the job's secret and the transcript of the handshake (claim and both nonces).
// A connection that is made again has other keys, so nothing recorded can be sent twice. Each direction has a key of its
// own, so no frame can be sent back to its sender; each use has keys of its own, so one cipher never sees another's data.

import type { Identity, Purpose } from './handshake.ts';

/** 'frames': the MAC of control frames. 'tensors': the encryption of tensor bytes. */
export type KeyUse = 'frames' | 'tensors';

/** Keys of 32 bytes for the two directions, as this side sees them. */
export interface KeyPair {
  readonly send: Buffer;
  readonly receive: Buffer;
}

/** `transcript` is equal on both sides; `side` is which of them this is. */
export function deriveKeys(
  { secret, jobId }: Identity,
  purpose: Purpose,
  transcript: Buffer,
  side: 'dialer' | 'listener',
  use: KeyUse,
): KeyPair {
  const keyFrom = (sender: 'dialer' | 'listener') =>
    secret.deriveKey(
      transcript,
      JSON.stringify(['horovod connection', purpose, use, `from ${sender}`, jobId]),
    );
  return { send: keyFrom(side), receive: keyFrom(side === 'dialer' ? 'listener' : 'dialer') };
}
