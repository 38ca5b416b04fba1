// Where a collector finds the rings of its host: their paths stand in the host's control block (transport/control-block.ts
// has the layout), in the page of their rank. Rings of other hosts are stood in for by those that the watch of this host
// relays them into. One word of the job's page says whether anybody collects.

import { readSync, writeSync } from 'node:fs';
import { controlLayout } from '../../control/control-block.ts';
import { sessionIn } from './ring.ts';

const pathAt = 320;
const pathLimit = 184;
/** In the job's page: a word for who, and one for the session. */
const collectingAt = 16;

/** `path` empty: no ring. */
export function publishRing(controlFd: number, rank: number, path: string): void {
  const bytes = Buffer.alloc(4 + pathLimit);
  const length = bytes.write(path, 4, pathLimit, 'utf8');
  bytes.writeUInt32LE(length < Buffer.byteLength(path) ? 0 : length, 0);
  writeSync(controlFd, bytes, 0, bytes.length, pageOf(rank) + pathAt);
}

/** Empty: none. */
export function publishedRing(controlFd: number, rank: number): string {
  const bytes = Buffer.alloc(4 + pathLimit);
  readSync(controlFd, bytes, 0, bytes.length, pageOf(rank) + pathAt);
  return bytes.toString('utf8', 4, 4 + Math.min(bytes.readUInt32LE(0), pathLimit));
}

/**
 * Who reads the rings of this host: rank 0's collector, or the watch ('relay'), for a collector on another host.
 * 'finishing': the collector ends, and asks its watch for what other hosts have; 'finished': it has got that.
 */
export type Collecting = 'nobody' | 'collector' | 'relay' | 'finishing' | 'finished';
const collectingWords: readonly Collecting[] = ['nobody', 'collector', 'relay', 'finishing', 'finished'];

/** `session`: of the timeline that is collected; left out: as it was. */
export function setCollecting(controlFd: number, who: Collecting, session?: number): void {
  const words = Buffer.alloc(8);
  words.writeUInt32LE(collectingWords.indexOf(who), 0);
  words.writeUInt32LE(session ?? 0, 4);
  writeSync(controlFd, words, 0, session === undefined ? 4 : 8, collectingAt);
}

export function collectedSession(controlFd: number): number {
  const word = Buffer.alloc(4);
  readSync(controlFd, word, 0, 4, collectingAt + 4);
  return word.readUInt32LE(0);
}

/** How long a ring of another session has to be there. */
const foreignMs = 1000;

/**
 * Which rings belong to a timeline: those of its session. Rings of another one are those of the timeline that comes next, or of
 * ranks that gave another file; the latter are taken too, after a while.
 */
export class RingFilter {
  readonly #foreign = new Map<string, number>();

  accepts(path: string, session: number, isFinishing: boolean): boolean {
    if (sessionIn(path) === session) return true;
    const now = performance.now();
    const since = this.#foreign.get(path) ?? now;
    this.#foreign.set(path, since);
    return now - since >= foreignMs && !isFinishing;
  }
}

export function collectingHere(controlFd: number): Collecting {
  const byte = Buffer.alloc(1);
  readSync(controlFd, byte, 0, 1, collectingAt);
  return collectingWords[byte[0] as number] ?? 'nobody';
}

function pageOf(rank: number): number {
  return (1 + rank) * controlLayout.pageBytes;
}
