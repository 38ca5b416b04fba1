// The secret that the launcher and the ranks of a job share. It never appears in argv, logs, error messages, JSON or
// util.inspect (which does not see private fields). It leaves this object only as an HMAC or a derived key, and once as
// hex, for the environment of the ranks.

import { createHash, createHmac, hkdfSync, randomBytes } from 'node:crypto';

const secretBytes = 32;

export class JobSecret {
  readonly #key: Buffer;

  private constructor(key: Buffer) {
    this.#key = key;
  }

  static generate(): JobSecret {
    return new JobSecret(randomBytes(secretBytes));
  }

  /** Undefined for text that is not 32 bytes in hex. */
  static fromHex(hex: string): JobSecret | undefined {
    return /^[0-9a-f]{64}$/i.test(hex) ? new JobSecret(Buffer.from(hex, 'hex')) : undefined;
  }

  /** Derived from a text that all ranks know; only as secret as that text. */
  static fromText(text: string): JobSecret {
    return new JobSecret(createHash('sha256').update(text).digest());
  }

  /** Another secret, derived from this one and a name. */
  derive(name: string): JobSecret {
    return new JobSecret(this.hmac('horovod derived secret', name));
  }

  /** HMAC-SHA256 of the parts, each preceded by its length so that no two lists of parts look the same. */
  hmac(...parts: readonly (string | Uint8Array)[]): Buffer {
    const hmac = createHmac('sha256', this.#key);
    for (const part of parts) {
      const bytes = typeof part === 'string' ? Buffer.from(part) : part;
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      hmac.update(length).update(bytes);
    }
    return hmac.digest();
  }

  /** HKDF-SHA256: a key of 32 bytes for one use of one connection. `salt` is what both sides contributed to it. */
  deriveKey(salt: Uint8Array, use: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#key, salt, use, secretBytes));
  }

  /** For the environment of a rank that is about to be started, or the config file of a data service, and nothing else. */
  revealForEnvironment(): string {
    return this.#key.toString('hex');
  }

  toString(): string {
    return '[job secret]';
  }

  toJSON(): string {
    return this.toString();
  }
}
