// Reads and writes model files and shows the progress on rank 0, or outside of a job: they may be on a slow disk or far away.

import { inBytes, type Phase, startPhase } from '../../../console/progress.ts';
import { writeFileAtomically } from '../../../files/atomic-write.ts';
import { readFile } from '../../../files/read-file.ts';
import { logOfRankZero } from '../../context.ts';
import { fileSystems } from '../../file-systems.ts';

/** Whole or not at all. */
export async function writeWithProgress(location: string, content: Uint8Array): Promise<void> {
  const total = content.byteLength;
  const phase = phaseOf(`writing ${inBytes(total)} to ${location}`);
  try {
    const onProgress = (done: number) => {
      phase?.report({ done, total, unit: 'bytes' });
      // On many systems this is what takes the time.
      if (done === total) phase?.report({ detail: 'waiting for the disk' });
    };
    await writeFileAtomically(fileSystems(), location, content, { onProgress });
  } finally {
    phase?.end();
  }
}

/** A file that becomes shorter while it is read ends where it ends: its checksum will not match. */
export async function readWithProgress(location: string): Promise<Uint8Array<ArrayBuffer>> {
  let phase: Phase | undefined;
  try {
    return await readFile(fileSystems(), location, {
      onProgress: (done, total) => {
        phase ??= phaseOf(`reading ${inBytes(total)} from ${location}`);
        phase?.report({ done, total, unit: 'bytes' });
      },
    });
  } finally {
    phase?.end();
  }
}

function phaseOf(what: string): Phase | undefined {
  const log = logOfRankZero();
  return log === undefined ? undefined : startPhase({ what, log });
}
