// Connections of a simulation without time: each keeps the order of its messages. A message is delivered when the simulation
// chooses to, one in ten twice, and a connection that is cut loses all that is under way. Nothing is random but for the seed.

type Deliver = (content: never) => void;

export class LateLinks {
  readonly #links = new Map<string, { readonly queue: unknown[]; readonly deliver: Deliver }>();
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  send(name: string, content: unknown, deliver: Deliver): void {
    const link = this.#links.get(name) ?? { queue: [], deliver };
    link.queue.push(content);
    this.#links.set(name, link);
  }

  /** One for each connection that has something to deliver: of the oldest message. */
  deliveries(isOpen: (name: string) => boolean): (() => void)[] {
    return [...this.#links].flatMap(([name, { queue, deliver }]) => {
      if (queue.length === 0 || !isOpen(name)) return [];
      return () => {
        const content = queue.shift() as never;
        deliver(content);
        if (this.#random() < 0.1) deliver(content);
      };
    });
  }

  cut(isCut: (name: string) => boolean): void {
    for (const name of this.#links.keys()) if (isCut(name)) this.#links.delete(name);
  }
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
