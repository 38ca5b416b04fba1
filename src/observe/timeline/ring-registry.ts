// Where a collector finds the rings of its host. The page of each rank in the control block (control/control-block.ts has the layout)
// contains the path of its ring. The watch of this host relays rings of other hosts into rings of its own. One word in the page of
// the job tells whether there is a collector.

import { readSync, writeSync } from 'node:fs';
import { controlLayout } from '../../control/control-block.ts';
import { processStatus } from '../../control/process-status.ts';

const pathAt = 320;
const pathLimit = 184;
/** In the page of the job: one word for the kind of reader, and one for the session. */
const collectingAt = 32;

/** An empty `path` means no ring. */
export function publishRing(controlFd: number, rank: number, path: string): void {
  const bytes = Buffer.alloc(4 + pathLimit);
  const length = bytes.write(path, 4, pathLimit, 'utf8');
  bytes.writeUInt32LE(length < Buffer.byteLength(path) ? 0 : length, 0);
  writeSync(controlFd, bytes, 0, bytes.length, pageOf(rank) + pathAt);
}

/** Empty if there is none. */
export function publishedRing(controlFd: number, rank: number): string {
  const bytes = Buffer.alloc(4 + pathLimit);
  readSync(controlFd, bytes, 0, bytes.length, pageOf(rank) + pathAt);
  return bytes.toString('utf8', 4, 4 + Math.min(bytes.readUInt32LE(0), pathLimit));
}

/** The processes on this host that may hold a ring: ranks, and this process, which may relay those of other hosts. */
export function ringHolders(controlFd: number, ranks: number): number[] {
  const word = Buffer.alloc(4);
  const pids = new Set([process.pid]);
  for (let rank = 0; rank < ranks; rank++) {
    readSync(controlFd, word, 0, 4, pageOf(rank) + controlLayout.rank.pid);
    pids.add(word.readUInt32LE(0));
  }
  return [...pids];
}

/**
 * Who reads the rings of this host: rank 0's collector, or the watch ('relay'), for a collector on another host.
 * 'finishing': the collector ends and asks its watch for the events of other hosts; 'finished': it has received them.
 */
export type Collecting = 'nobody' | 'collector' | 'relay' | 'finishing' | 'finished';
const collectingWords: readonly Collecting[] = ['nobody', 'collector', 'relay', 'finishing', 'finished'];

/** `session`: of the timeline that is collected. Omit it to leave it unchanged. */
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

export function collectingHere(controlFd: number): Collecting {
  const byte = Buffer.alloc(1);
  readSync(controlFd, byte, 0, 1, collectingAt);
  return collectingWords[byte[0] as number] ?? 'nobody';
}

/** Whether a process reads the rings of this host. Rank 0 may have died as a collector. */
export function isRingRead(controlFd: number): boolean {
  const who = collectingHere(controlFd);
  if (who === 'nobody') return false;
  if (who === 'relay') return true;
  const word = Buffer.alloc(4);
  readSync(controlFd, word, 0, 4, pageOf(0) + controlLayout.rank.pid);
  const pid = word.readUInt32LE(0);
  return pid === 0 || processStatus(pid).state === 'running';
}

function pageOf(rank: number): number {
  return (1 + rank) * controlLayout.pageBytes;
}
