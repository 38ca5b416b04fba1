// Autotune while ranks start, before there is a context. Loaded only if rank 0 wants it.

import { GroupTunables } from '../../engine/autotune/group-tunables.ts';
import {
  type AutotuneWord,
  hierarchyOf,
  jobShape,
  savedValues,
  settledValues,
} from '../../engine/autotune/word.ts';
import type { Settings } from '../../settings/table.ts';
import type { Transport } from '../../transport/transport.ts';
import type { Autotune } from '../autotune.ts';
import type { HostMap } from './hosts.ts';

export { autotuneWord } from '../../engine/autotune/word.ts';

/** What rank 0 said about autotune, and what follows from it for this job. */
export class Tuning implements Pick<Autotune, 'word' | 'shape'> {
  readonly word: AutotuneWord;
  readonly shape: Autotune['shape'];
  readonly #saved: ReturnType<typeof savedValues>;

  constructor(word: AutotuneWord, transport: string, { hostOf }: HostMap) {
    this.word = word;
    this.shape = jobShape(transport, hostOf);
    this.#saved = settledValues(word, this.shape) ?? savedValues(word, this.shape);
  }

  /** What a transport is opened with cannot change later. */
  get hierarchy(): ReturnType<typeof hierarchyOf> {
    return hierarchyOf(this.#saved);
  }

  groupTunables(transport: Transport, { hostOf }: HostMap, settings: Settings): GroupTunables {
    const defaults = {
      allreduce: settings.hierarchicalAllreduce ?? true,
      allgather: settings.hierarchicalAllgather ?? true,
    };
    const fixed =
      this.#saved === undefined ? this.word.given : ['hierarchicalAllreduce', 'hierarchicalAllgather'];
    return GroupTunables.of(transport, hostOf, defaults, fixed);
  }
}
