// The status of a job of one rank, which needs no control block for anything else: so that `horovod status` shows it as
// well. Where there can be none, the job goes without.

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { ControlBlock } from '../../control/control-block.ts';
import { hasDescriptorPaths } from '../../control/memory-file.ts';
import { ControlBlockBoard } from '../../observe/status/status-board.ts';
import type { StatusPlace } from '../../observe/status/status-writer.ts';
import type { Settings } from '../../settings/table.ts';

export interface AloneStatus {
  readonly status: StatusPlace | undefined;
  leave(): void;
  close(): void;
}

export function openAloneStatus(settings: Pick<Settings, 'shmDirectory'>): AloneStatus {
  const block = createBlock(settings.shmDirectory);
  if (block === undefined) return { status: undefined, leave() {}, close() {} };
  return {
    status: {
      board: new ControlBlockBoard(block, [0]),
      host: hostname(),
      job: randomBytes(4).toString('hex'),
    },
    leave: () => block.leave(0),
    close: () => block.close(),
  };
}

function createBlock(directory: string | undefined): ControlBlock | undefined {
  // Without /proc it would have a name, which a killed process leaves behind.
  if (!hasDescriptorPaths()) return undefined;
  try {
    const block = ControlBlock.create(1, { directory });
    block.attach(0);
    return block;
  } catch {
    return undefined;
  }
}
