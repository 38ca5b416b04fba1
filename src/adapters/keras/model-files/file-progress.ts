// Reads and writes model files in pieces and shows the progress on rank 0, or outside of a job: they may be on a slow disk or
// far away.

import type { FileHandle } from 'node:fs/promises';
import { inBytes, type Phase, startPhase } from '../../../console/progress.ts';
import { logOfRankZero } from '../../context.ts';

const pieceBytes = 16 * 2 ** 20;

export async function writeInPieces(file: FileHandle, content: Uint8Array, path: string): Promise<void> {
  const total = content.byteLength;
  const phase = phaseOf(`writing ${inBytes(total)} to ${path}`);
  try {
    for (let done = 0; done < total; ) {
      const piece = content.subarray(done, done + pieceBytes);
      const { bytesWritten } = await file.write(piece, 0, piece.byteLength);
      done += bytesWritten;
      phase?.report({ done, total, unit: 'bytes' });
    }
    // On many systems this is what takes the time.
    phase?.report({ detail: 'waiting for the disk' });
    await file.sync();
  } finally {
    phase?.end();
  }
}

export async function readInPieces(file: FileHandle, path: string): Promise<Uint8Array<ArrayBuffer>> {
  const { size: total } = await file.stat();
  const phase = phaseOf(`reading ${inBytes(total)} from ${path}`);
  const content = new Uint8Array(total);
  try {
    let done = 0;
    while (done < total) {
      const length = Math.min(pieceBytes, total - done);
      const { bytesRead } = await file.read(content, done, length, done);
      // The file was truncated meanwhile: its checksum will not match.
      if (bytesRead === 0) return content.subarray(0, done);
      done += bytesRead;
      phase?.report({ done, total, unit: 'bytes' });
    }
    return content;
  } finally {
    phase?.end();
  }
}

function phaseOf(what: string): Phase | undefined {
  const log = logOfRankZero();
  return log === undefined ? undefined : startPhase({ what, log });
}
