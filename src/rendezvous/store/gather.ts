// Every rank contributes a text and gets the texts of all. They go through the store: the first rank collects them and
// hands out the list, so that the store answers each rank once, however many there are.

import { HorovodError } from '../../errors.ts';
import { inSeconds, type WaitOptions } from '../../net/wait.ts';
import type { Store } from './store.ts';

export interface GatherOptions extends WaitOptions {
  /** The ranks that take part, in the order of the result. */
  readonly members: readonly number[];
  /** This one. */
  readonly rank: number;
  /** Called on the first rank with the ranks that are still missing, at the beginning and as they come. */
  onMissing?(missing: readonly number[]): void;
}

/** Pieces that fit into a frame of the store, even if every character is escaped. */
const pattern = /[\s\S]{1,10000}/g;
/** The rank that collects gives up a little earlier than those that wait for the list: it knows who is missing. */
const slackMs = 1000;

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
    const patience = {
      signal,
      timeoutMs: timeoutMs === undefined ? undefined : timeoutMs + slackMs,
      from: first,
    };
    // Asked first: the first one may end as soon as it has answered.
    const answer = store.get(`${all}/0`, patience);
    answer.catch(() => undefined);
    await store.set(`${key}/${rank}`, text, wait);
    const list = await answer.catch((error: unknown) => {
      throw named(error, rank, [first as number], timeoutMs);
    });
    const [, count = '1', head = ''] = /^(\d+) ([\s\S]*)$/.exec(list) ?? [];
    const places = Array.from({ length: Number(count) - 1 }, (_, place) => place + 1);
    const rest = places.map((place) => store.get(`${all}/${place}`, patience));
    return JSON.parse(head + (await Promise.all(rest)).join('')) as string[];
  }
  const missing = new Set(members.filter((member) => member !== rank));
  options.onMissing?.([...missing]);
  const listen = async (member: number): Promise<string> => {
    if (member === rank) return text;
    const told = await store.get(`${key}/${member}`, { ...wait, from: member });
    missing.delete(member);
    options.onMissing?.([...missing]);
    return told;
  };
  const texts = await Promise.all(members.map(listen)).catch((error: unknown) => {
    throw named(error, rank, [...missing], timeoutMs);
  });
  // The list of a large job is longer than a value may be. The first piece is written last: once it is there, so is the rest.
  const pieces = JSON.stringify(texts).match(pattern) ?? [];
  for (const [place, piece] of [...pieces.entries()].reverse()) {
    await store.set(`${all}/${place}`, place === 0 ? `${pieces.length} ${piece}` : piece, wait);
  }
  return texts;
}

/** Adds to the error of a deadline which ranks are missing; other errors stay as they are. */
function named(error: unknown, rank: number, missing: readonly number[], timeoutMs = 0): unknown {
  if (!HorovodError.is(error) || error.code !== 'ERR_HVD_TIMEOUT') return error;
  const shown = missing.length > 16 ? [...missing.slice(0, 16), '…'] : missing;
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `rank ${rank} waited ${inSeconds(timeoutMs)} in init() for ${missing.length === 1 ? 'rank' : 'ranks'} ${shown.join(', ')}. ` +
      'Has every rank been started, and does every rank call init()? To wait longer, use --start-timeout or HOROVOD_START_TIMEOUT.',
    { rank: missing[0], cause: error },
  );
}
