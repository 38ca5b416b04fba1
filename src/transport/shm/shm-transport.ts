// The native transport for ranks of one host: each group has a memory-mapped segment, in which the addon moves and
// reduces bytes.

import { type MemoryFile, openMemoryFile } from '../../control/memory-file.ts';
import { exchangePrepared } from '../group/open-members.ts';
import { AddonGroup } from '../native/addon-group.ts';
import { AddonTransport } from '../native/addon-transport.ts';
import type { GroupSpec, TransportGroup } from '../transport.ts';

export class ShmTransport extends AddonTransport {
  readonly name = 'shm';

  async openGroup(spec: GroupSpec): Promise<TransportGroup> {
    const { rank, cma, timeoutMs, stallAfterMs } = this.options;
    let file: MemoryFile | undefined;
    try {
      const [path] = await exchangePrepared(spec, () => {
        if (spec.index === 0) file = this.createSegment(spec.members.length);
        return file?.path ?? '';
      });
      file ??= openMemoryFile(path as string);
      const { fd } = file;
      const group = new AddonGroup(this.block, rank, spec, this.tryUpToBytes, (report, mailbox) =>
        this.addon.openGroup(
          this.control,
          this.arena,
          fd,
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
      // By now all members have mapped it, or the group has not opened.
      file?.close();
    }
  }
}
