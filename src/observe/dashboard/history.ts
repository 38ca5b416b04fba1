// All looks at a job that its page may want to draw, in limited memory: when there are too many bytes, every second look of the older
// half is left out. So the last minutes are kept to the second, and hours as an outline. Looks are kept as the text that is sent.

const defaultMaxBytes = 6 * 2 ** 20;

export class History {
  readonly #maxBytes: number;
  #texts: string[] = [];
  #bytes = 0;

  constructor(maxBytes: number = defaultMaxBytes) {
    this.#maxBytes = maxBytes;
  }

  add(text: string): void {
    this.#texts.push(text);
    this.#bytes += text.length;
    while (this.#bytes > this.#maxBytes && this.#texts.length > 2) this.#thin();
  }

  /** The oldest first, as JSON of a list. */
  json(): string {
    return `[${this.#texts.join(',')}]`;
  }

  get length(): number {
    return this.#texts.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  #thin(): void {
    const half = this.#texts.length >> 1;
    // The first look stays: it is where the curves begin.
    this.#texts = this.#texts.filter((_, index) => index >= half || index % 2 === 0 || half < 2);
    // Two looks are too much already: the older one goes.
    if (half < 2) this.#texts.shift();
    this.#bytes = this.#texts.reduce((sum, text) => sum + text.length, 0);
  }
}
