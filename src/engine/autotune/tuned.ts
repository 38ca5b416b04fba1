// The settings of a context that may change while it runs, and what is known of who uses them. They change only at
// the end of a step, on all ranks at once, when nothing is in flight (tuner.ts); what was made from them (routes of
// gradients) looks at `version` and is made anew.

import type { OverlapChoice } from '../../settings/table.ts';
import type { TunableValue, TunableValues } from './tunables.ts';

export interface TunableLimits {
  fusionThresholdBytes: number;
  cycleTimeMs: number;
  overlap: OverlapChoice;
  bucketBytes: number;
}

export class Tuned implements TunableLimits {
  fusionThresholdBytes: number;
  cycleTimeMs: number;
  overlap: OverlapChoice;
  bucketBytes: number;
  /** Of compressors that may be chosen (Compression.auto): the name of the one to use. */
  compression: string | undefined;
  /** Called where ranks were not at the same point when they wanted to agree, with the key of what they wanted. */
  onGivenUp: ((key: string) => void) | undefined;
  /** Counts changes. */
  version = 0;
  /** Several requests have been in flight at once: how they are gathered and fused matters. */
  hasBatches = false;
  /** Gradients have come in during backpropagation: when they start, and how many together, matters. */
  hasBuckets = false;
  /** Names of compressors that the user lets autotune choose from; the first is the default one. */
  compressions: readonly string[] = [];

  constructor({ fusionThresholdBytes, cycleTimeMs, overlap, bucketBytes }: Readonly<TunableLimits>) {
    this.fusionThresholdBytes = fusionThresholdBytes;
    this.cycleTimeMs = cycleTimeMs;
    this.overlap = overlap;
    this.bucketBytes = bucketBytes;
  }

  /** Takes over what is meant for this object; says whether it changed anything. */
  apply(values: TunableValues): boolean {
    const before = [
      this.fusionThresholdBytes,
      this.cycleTimeMs,
      this.overlap,
      this.bucketBytes,
      this.compression,
    ];
    this.fusionThresholdBytes = numberOr(values['fusionThresholdBytes'], this.fusionThresholdBytes);
    this.cycleTimeMs = numberOr(values['cycleTimeMs'], this.cycleTimeMs);
    this.bucketBytes = numberOr(values['bucketBytes'], this.bucketBytes);
    const [overlap, compression] = [values['overlap'], values['compression']];
    if (overlap === 'auto' || overlap === 'always' || overlap === 'never') this.overlap = overlap;
    if (typeof compression === 'string') this.compression = compression;
    const after = [
      this.fusionThresholdBytes,
      this.cycleTimeMs,
      this.overlap,
      this.bucketBytes,
      this.compression,
    ];
    const isChanged = after.some((value, i) => value !== before[i]);
    if (isChanged) this.version++;
    return isChanged;
  }
}

function numberOr(value: TunableValue | undefined, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}
