// Which tunables a job has: what its program uses, its transport can change, and nobody has fixed.

import type { Background } from '../../transport/transport.ts';
import type { Tunable } from './tunables.ts';
import type { Tuned } from './tuned.ts';

export interface TunableFacts {
  readonly tuned: Tuned;
  /** Names of settings that the user has given: they stay. */
  readonly given: ReadonlySet<string>;
  readonly background: Background;
  /** Of the group of all ranks. */
  readonly more: readonly Tunable[];
}

const kibi = 2 ** 10;
const mebi = 2 ** 20;

export function jobTunables({ tuned, given, background, more }: TunableFacts): Tunable[] {
  const tunables: Tunable[] = [];
  if (tuned.hasBatches) {
    const { fusionThresholdBytes, cycleTimeMs } = tuned;
    tunables.push(
      {
        kind: 'size',
        name: 'fusionThresholdBytes',
        unit: 'bytes',
        defaultValue: fusionThresholdBytes,
        min: 64 * kibi,
        max: 256 * mebi,
      },
      {
        kind: 'size',
        name: 'cycleTimeMs',
        unit: 'ms',
        defaultValue: cycleTimeMs,
        min: 0.25,
        max: 16,
        hasZero: true,
      },
    );
  }
  if (tuned.hasBuckets && background !== 'none') {
    const { overlap, bucketBytes } = tuned;
    const other = background === 'spare' ? 'never' : 'always';
    const overlapping = background === 'spare' ? ['auto', 'always'] : ['always'];
    const isFixed = overlap !== 'auto' || given.has('overlap');
    if (!isFixed) {
      tunables.push({ kind: 'choice', name: 'overlap', choices: ['auto', other], defaultValue: 'auto' });
    }
    // Buckets are for starting early; without overlap there are none.
    if (!isFixed || overlapping.includes(overlap)) {
      tunables.push({
        kind: 'size',
        name: 'bucketBytes',
        unit: 'bytes',
        defaultValue: bucketBytes,
        min: 64 * kibi,
        max: 64 * mebi,
        ...(isFixed ? {} : { needs: { name: 'overlap', values: overlapping } }),
      });
    }
  }
  tunables.push(...more);
  const [defaultValue] = tuned.compressions;
  if (defaultValue !== undefined && tuned.compressions.length > 1) {
    tunables.push({ kind: 'choice', name: 'compression', choices: tuned.compressions, defaultValue });
  }
  return tunables.filter(({ name }) => !given.has(name));
}
