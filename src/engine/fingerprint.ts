// 64-bit fingerprints of what a rank wants to run, as two 32-bit halves (numbers are quicker than BigInt). Two
// independent multiply-xor lanes: not for secrets, only for telling different programs apart.

export class Fingerprint {
  low: number = 0x9e3779b1 | 0;
  high: number = 0x85ebca77 | 0;

  /** Any number: the integer part modulo 2^32 and the rest are both taken in. */
  number(value: number): this {
    const integer = value | 0;
    this.#mix(integer);
    if (integer !== value) {
      scratchFloat[0] = value;
      this.#mix(scratchWords[0] as number);
      this.#mix(scratchWords[1] as number);
    }
    return this;
  }

  text(value: string): this {
    this.#mix(value.length);
    for (let i = 0; i < value.length; i++) this.#mix(value.charCodeAt(i));
    return this;
  }

  #mix(word: number): void {
    let low = Math.imul(this.low ^ word, 0x9e3779b1);
    low ^= low >>> 15;
    this.low = low;
    let high = Math.imul(this.high ^ word, 0xc2b2ae3d);
    high ^= high >>> 13;
    this.high = high + low;
    this.high |= 0;
  }
}

// Written and read within one call: shared by all without harm.
const scratchFloat = new Float64Array(1);
const scratchWords = new Int32Array(scratchFloat.buffer);
