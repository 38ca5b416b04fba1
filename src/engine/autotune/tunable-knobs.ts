// Which knobs a job has: what its program uses, its transport can change, and nobody has fixed.

import type { Background } from '../../transport/transport.ts';
import type { Knob } from './knobs.ts';
import type { Tuned } from './tuned.ts';

export interface KnobFacts {
  readonly tuned: Tuned;
  /** Names of settings that the user has given: they stay. */
  readonly given: ReadonlySet<string>;
  readonly background: Background;
  /** Of the group of all ranks. */
  readonly more: readonly Knob[];
}

const kibi = 2 ** 10;
const mebi = 2 ** 20;

export function tunableKnobs({ tuned, given, background, more }: KnobFacts): Knob[] {
  const knobs: Knob[] = [];
  if (tuned.hasBatches) {
    const { fusionThresholdBytes, cycleTimeMs } = tuned;
    knobs.push(
      {
        ...{ kind: 'size', name: 'fusionThresholdBytes', unit: 'bytes', usual: fusionThresholdBytes },
        ...{ least: 64 * kibi, most: 256 * mebi },
      },
      {
        ...{ kind: 'size', name: 'cycleTimeMs', unit: 'ms', usual: cycleTimeMs },
        ...{ least: 0.25, most: 16, hasZero: true },
      },
    );
  }
  if (tuned.hasBuckets && background !== 'none') {
    const { overlap, bucketBytes } = tuned;
    const other = background === 'spare' ? 'never' : 'always';
    const overlapping = background === 'spare' ? ['auto', 'always'] : ['always'];
    const isFixed = overlap !== 'auto' || given.has('overlap');
    if (!isFixed) {
      knobs.push({ kind: 'choice', name: 'overlap', choices: ['auto', other], usual: 'auto' });
    }
    // Buckets are for starting early; without overlap there are none.
    if (!isFixed || overlapping.includes(overlap)) {
      knobs.push({
        ...{ kind: 'size', name: 'bucketBytes', unit: 'bytes', usual: bucketBytes },
        ...{ least: 64 * kibi, most: 64 * mebi },
        ...(isFixed ? {} : { needs: { name: 'overlap', values: overlapping } }),
      });
    }
  }
  knobs.push(...more);
  const [usual] = tuned.compressions;
  if (usual !== undefined && tuned.compressions.length > 1) {
    knobs.push({ kind: 'choice', name: 'compression', choices: tuned.compressions, usual });
  }
  return knobs.filter(({ name }) => !given.has(name));
}
