// The native transport for ranks of one host: each group has a memory-mapped segment, in which the addon moves and
// reduces bytes.

import { type MemoryFile, openMemoryFile } from '../../control/memory-file.ts';
import { exchangePrepared } from '../group/open-members.ts';
import { AddonTransport } from '../native/addon-transport.ts';
import type { GroupSpec, TransportGroup } from '../transport.ts';

export class ShmTransport extends AddonTransport {
  readonly name = 'shm';

  async openGroup(spec: GroupSpec): Promise<TransportGroup> {
    let file: MemoryFile | undefined;
    try {
      const [path] = await exchangePrepared(spec, () => {
        if (spec.index === 0) file = this.createSegment(spec.members.length);
        return file?.path ?? '';
      });
      file ??= openMemoryFile(path as string);
      const group = this.createGroup(spec, file, (options) => this.addon.openGroup(options));
      group.seesAll = true;
      await this.admit(group, spec);
      group.probe(this.options.cma);
      return group;
    } finally {
      // By now all members have mapped it, or the group has not opened.
      file?.close();
    }
  }
}
