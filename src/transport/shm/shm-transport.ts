// The native transport for ranks of one host: each group has a memory-mapped segment, in which the addon moves and
// reduces bytes.

import type { MemoryFile } from '../../control/memory-file.ts';
import { exchangePrepared } from '../group/open-members.ts';
import { AddonTransport } from '../native/addon-transport.ts';
import type { GroupSpec, TransportGroup } from '../transport.ts';

export class ShmTransport extends AddonTransport {
  readonly name = 'shm';

  async openGroup(given: GroupSpec): Promise<TransportGroup> {
    const spec = this.beginOpening(given);
    let file: MemoryFile | undefined;
    try {
      const [path] = await exchangePrepared(spec, () => {
        if (spec.index === 0) file = this.createSegment(spec.members.length);
        return file?.path ?? '';
      });
      file ??= this.openSegment(path as string, spec.members.length, spec.members[0] as number);
      const group = this.createGroup(spec, file, (options) => this.addon.openGroup(options));
      group.seesAll = true;
      await this.admit(group, spec);
      await this.explore(group, spec);
      return group;
    } finally {
      // By now all members have mapped it, or the group has not opened.
      file?.close();
    }
  }
}
