// 3,000 sentences from reviews of films, phones and restaurants, half of them positive, from the npm package `sentiment`.
// Each sentence becomes a row of numbers. Frequent words of the training sentences are numbered from 2, all other words
// are 1 (unknown), and 0 pads short rows.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

export interface Sentence {
  readonly text: string;
  readonly isPositive: boolean;
}

export interface Split {
  readonly training: readonly Sentence[];
  readonly testing: readonly Sentence[];
}

const sources = ['imdb', 'amazon', 'yelp'];

/** Every `testEvery`-th sentence is for testing. All ranks get the same sentences in the same order. */
export function loadSentences(testEvery = 5): Split {
  const folder = findFolder();
  const rows = sources.map((source) => readSource(join(folder, `${source}.json`)));
  const all = rows.flat().map((sentence, index) => ({ sentence, order: scramble(index) }));
  all.sort((a, b) => a.order - b.order); // the files list positive and negative sentences in separate blocks
  const isTest = (_: unknown, index: number): boolean => index % testEvery === 0;
  const sentences = all.map((each) => each.sentence);
  return {
    training: sentences.filter((each, index) => !isTest(each, index)),
    testing: sentences.filter(isTest),
  };
}

export const padding = 0;
export const unknownWord = 1;

/** "It isn't good!" → it, isn't, good. */
export function tokenize(text: string): string[] {
  return text.toLowerCase().match(/[a-z0-9]+(?:'[a-z]+)?/g) ?? [];
}

export class Vocabulary {
  readonly #numbers: ReadonlyMap<string, number>;

  /** Keeps the words that occur at least `atLeast` times. */
  constructor(sentences: readonly Sentence[], atLeast = 2) {
    const counts = new Map<string, number>();
    for (const { text } of sentences) {
      for (const word of tokenize(text)) counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    const words = [...counts].filter(([, count]) => count >= atLeast).map(([word]) => word);
    this.#numbers = new Map(words.sort().map((word, index) => [word, index + 2]));
  }

  /** The number of words, including padding and the unknown word. */
  get size(): number {
    return this.#numbers.size + 2;
  }

  /** Encodes sentences as a table with `length` numbers per row. Longer sentences are cut, shorter ones are padded. */
  encode(texts: readonly string[], length: number): Int32Array {
    const table = new Int32Array(texts.length * length).fill(padding);
    texts.forEach((text, row) => {
      const words = tokenize(text).slice(0, length);
      words.forEach((word, column) => {
        table[row * length + column] = this.#numbers.get(word) ?? unknownWord;
      });
    });
    return table;
  }
}

function findFolder(): string {
  try {
    const require = createRequire(import.meta.url);
    return join(dirname(require.resolve('sentiment/package.json')), 'test/fixtures');
  } catch (cause) {
    throw new Error('Cannot find the sentences. Install them with: npm install --save-dev sentiment', {
      cause,
    });
  }
}

function readSource(path: string): Sentence[] {
  const rows = JSON.parse(readFileSync(path, 'utf8')) as { text: string; class: number }[];
  return rows
    .filter((row) => typeof row.text === 'string' && row.text.trim() !== '')
    .map((row) => ({ text: row.text.trim(), isPositive: row.class === 1 }));
}

/** A pseudo-random sort key that depends only on the index. */
function scramble(index: number): number {
  let mixed = Math.imul(index + 1, 0x9e3779b1);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}
