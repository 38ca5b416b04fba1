// The native transport for ranks of one host: a memory-mapped segment for each group, moved and reduced by the addon.

import type { ControlBlock } from '../../control/control-block.ts';
import { createMemoryFile, openMemoryFile } from '../../control/memory-file.ts';
import type { NativeAddon } from '../native/addon.ts';
import { AddonGroup } from '../native/addon-group.ts';
import { AddonTransport, type AddonTransportOptions } from '../native/addon-transport.ts';
import type { GroupSpec, TransportGroup } from '../transport.ts';

export type ShmTransportOptions = AddonTransportOptions;

export class ShmTransport extends AddonTransport {
  readonly name = 'shm';
  readonly #options: ShmTransportOptions;

  constructor(addon: NativeAddon, block: ControlBlock, options: ShmTransportOptions) {
    super(addon, block, options);
    this.#options = options;
  }

  async openGroup(spec: GroupSpec): Promise<TransportGroup> {
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
