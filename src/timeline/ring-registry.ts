// Where a collector finds the rings of its host: their paths stand in the host's control block (plane/control-block.ts
// has the layout), in the page of their rank. Rings of other hosts are stood in for by those that the watch of this host
// relays them into. One word of the job's page says whether anybody collects.

import { readSync, writeSync } from 'node:fs';
import { controlLayout } from '../plane/control-block.ts';

const pathAt = 320;
const pathLimit = 184;
/** In the job's page. */
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

export function setCollecting(controlFd: number, who: Collecting): void {
  writeSync(controlFd, Buffer.from([collectingWords.indexOf(who)]), 0, 1, collectingAt);
}

export function collectingHere(controlFd: number): Collecting {
  const byte = Buffer.alloc(1);
  readSync(controlFd, byte, 0, 1, collectingAt);
  return collectingWords[byte[0] as number] ?? 'nobody';
}

function pageOf(rank: number): number {
  return (1 + rank) * controlLayout.pageBytes;
}
