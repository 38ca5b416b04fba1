// All ranks of a job tell each other a text through the store: the first one collects them and hands out the list, so
// that the store answers each rank once, however many there are.

import type { Store, WaitOptions } from './store.ts';

export interface GatherOptions extends WaitOptions {
  /** The ranks that take part, in the order of the result. */
  readonly members: readonly number[];
  /** This one. */
  readonly rank: number;
}

/** Pieces that fit into a frame of the store, however their letters are written there. */
const pattern = /[\s\S]{1,10000}/g;

export async function gather(
  store: Store,
  key: string,
  text: string,
  options: GatherOptions,
): Promise<readonly string[]> {
  const { members, rank, signal, timeoutMs } = options;
  const wait = { signal, timeoutMs };
  const all = `${key}/all`;
  const first = members[0];
  if (rank !== first) {
    // Asked before it is told: the first one may end as soon as it has answered.
    const answer = store.get(`${all}/0`, { ...wait, from: first });
    answer.catch(() => undefined);
    await store.set(`${key}/${rank}`, text, wait);
    const [, count = '1', head = ''] = /^(\d+) ([\s\S]*)$/.exec(await answer) ?? [];
    const places = Array.from({ length: Number(count) - 1 }, (_, place) => place + 1);
    const rest = places.map((place) => store.get(`${all}/${place}`, { ...wait, from: first }));
    return JSON.parse(head + (await Promise.all(rest)).join('')) as string[];
  }
  const texts = await Promise.all(
    members.map((member) =>
      member === rank ? text : store.get(`${key}/${member}`, { ...wait, from: member }),
    ),
  );
  // The list of a large job is longer than a value may be. The first piece comes last: who has it can have the rest.
  const pieces = JSON.stringify(texts).match(pattern) ?? [];
  for (const [place, piece] of [...pieces.entries()].reverse()) {
    await store.set(`${all}/${place}`, place === 0 ? `${pieces.length} ${piece}` : piece, wait);
  }
  return texts;
}
