// All looks at a job that its page may want to draw, in limited memory. The newest are kept whole. Of those before, only every second one
// is kept when there are too many bytes, then every fourth, and so on: so hours fit, in the same distances from the beginning on. Looks are
// kept as the text that is sent.

const defaultMaxBytes = 6 * 2 ** 20;

interface Look {
  /** Counts all looks. */
  readonly number: number;
  readonly text: string;
}

export class History {
  readonly #maxBytes: number;
  #looks: Look[] = [];
  #count = 0;
  #bytes = 0;

  constructor(maxBytes: number = defaultMaxBytes) {
    this.#maxBytes = maxBytes;
  }

  add(text: string): void {
    this.#looks.push({ number: this.#count++, text });
    this.#bytes += text.length;
    while (this.#bytes > this.#maxBytes && this.#looks.length > 2) this.#thin();
  }

  /** The oldest first, as JSON of a list. */
  json(): string {
    return `[${this.#looks.map(({ text }) => text).join(',')}]`;
  }

  get length(): number {
    return this.#looks.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The first look has the number 0, and stays. */
  #thin(): void {
    const before = this.#looks.length;
    const older = before - Math.ceil(before / 4);
    const numbers = this.#looks.slice(0, older).map(({ number }) => number);
    const distances = numbers.slice(1).map((number, index) => number - (numbers[index] as number));
    const stride = 2 * Math.min(...distances);
    this.#looks = this.#looks.filter(({ number }, index) => index >= older || number % stride === 0);
    // The older ones are few already: one of them goes.
    if (this.#looks.length === before) this.#looks.splice(older === 1 ? 0 : 1, 1);
    this.#bytes = this.#looks.reduce((sum, { text }) => sum + text.length, 0);
  }
}
