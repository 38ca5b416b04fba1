// The native plane for ranks of one host: a memory-mapped segment for each group, moved and reduced by the addon.

import type { NativeAddon } from '../../native/addon.ts';
import type { ControlBlock } from '../control-block.ts';
import { createMemoryFile, openMemoryFile } from '../memory-file.ts';
import { AddonGroup } from '../native/addon-group.ts';
import { AddonPlane, type AddonPlaneOptions } from '../native/addon-plane.ts';
import type { GroupSpec, PlaneGroup } from '../plane.ts';

export type ShmPlaneOptions = AddonPlaneOptions;

export class ShmPlane extends AddonPlane {
  readonly name = 'shm';
  readonly #options: ShmPlaneOptions;

  constructor(addon: NativeAddon, block: ControlBlock, options: ShmPlaneOptions) {
    super(addon, block, options);
    this.#options = options;
  }

  async openGroup(spec: GroupSpec): Promise<PlaneGroup> {
    const { rank, shmDirectory, cma, timeoutMs, stallAfterMs } = this.#options;
    const own =
      spec.index === 0
        ? createMemoryFile(this.addon.bytesPerMember * spec.members.length, {
            directory: shmDirectory,
            label: 'the shared segment of a process set',
          })
        : undefined;
    const [path = ''] = await spec.exchange(own?.path ?? '');
    const file = own ?? openMemoryFile(path);
    try {
      const group = new AddonGroup(this.block, rank, spec, this.tryUpToBytes, (report, mailbox) =>
        this.addon.openGroup(
          this.control,
          this.arena,
          file.fd,
          Int32Array.from(spec.members),
          spec.index,
          this.spins,
          timeoutMs,
          stallAfterMs,
          report,
          mailbox,
        ),
      );
      group.seesAll = true;
      await this.admit(group, spec);
      group.probe(cma);
      return group;
    } finally {
      // All have mapped it, or the group does not come about.
      file.close();
    }
  }
}
