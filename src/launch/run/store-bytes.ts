// Sends bytes of any length through the store, whose messages are short: as base64, split over numbered keys.

import type { WaitOptions } from '../../net/wait.ts';
import type { Store, StoreWait } from '../../rendezvous/store/store.ts';

/** Of base64; a message of the store holds 64 KiB. */
const pieceCharacters = 48 * 1024;
/** Number of messages sent at a time. */
const window = 32;

/** For a store that serves a single run(). */
export const runJobId = 'run';
export const callKey = 'run/call';
export function outcomeKey(rank: number): string {
  return `run/result/${rank}`;
}

export async function putBytes(
  store: Store,
  key: string,
  bytes: Buffer,
  wait: WaitOptions = {},
): Promise<void> {
  const text = bytes.toString('base64');
  const count = Math.ceil(text.length / pieceCharacters);
  await inWindows(count, (index) => {
    const start = index * pieceCharacters;
    return store.set(`${key}/${index}`, text.slice(start, start + pieceCharacters), wait);
  });
  // Last, so that the pieces exist when the count is seen.
  await store.set(key, String(count), wait);
}

export async function getBytes(store: Store, key: string, wait: StoreWait = {}): Promise<Buffer> {
  const count = Number(await store.get(key, wait));
  const pieces = await inWindows(count, async (index) =>
    Buffer.from(await store.get(`${key}/${index}`, wait), 'base64'),
  );
  return Buffer.concat(pieces);
}

async function inWindows<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let start = 0; start < count; start += window) {
    const length = Math.min(window, count - start);
    results.push(...(await Promise.all(Array.from({ length }, (_, index) => work(start + index)))));
  }
  return results;
}
