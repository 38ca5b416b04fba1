// All ranks of a job tell each other a text through the store: the first one collects them and hands out the list, so
// that the store answers each rank once, however many there are.

import type { Store, WaitOptions } from './store.ts';

export interface GatherOptions extends WaitOptions {
  /** The ranks that take part, in the order of the result. */
  readonly members: readonly number[];
  /** This one. */
  readonly rank: number;
}

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
    const answer = store.get(all, { ...wait, from: first });
    answer.catch(() => undefined);
    await store.set(`${key}/${rank}`, text, wait);
    return JSON.parse(await answer) as string[];
  }
  const texts = await Promise.all(
    members.map((member) =>
      member === rank ? text : store.get(`${key}/${member}`, { ...wait, from: member }),
    ),
  );
  await store.set(all, JSON.stringify(texts), wait);
  return texts;
}
