// One step of all ranks in detail. It is chosen from the summary of a timeline, whose file is then read a second time for
// the slices of that stretch.

import { tracks } from '../records.ts';
import type { TraceEvent } from './read-trace.ts';
import type { TraceSummary } from './summary.ts';

export interface ZoomedSlice {
  readonly rank: number;
  readonly name: string;
  /** Row of its rank: 0 for phases of training, from 1 on for operations side by side. */
  readonly row: number;
  /** Inside of another one. */
  readonly isInner: boolean;
  /** Since the start of the stretch; cut at its ends. */
  readonly fromUs: number;
  readonly toUs: number;
}

const mostSlices = 4000;
const mostRows = 3;

export class Zoom {
  readonly fromUs: number;
  readonly toUs: number;
  readonly slices: ZoomedSlice[] = [];

  private constructor(fromUs: number, toUs: number) {
    this.fromUs = fromUs;
    this.toUs = toUs;
  }

  /** A typical step of the first rank that has steps; undefined: there are no steps. */
  static of({ ranks }: TraceSummary): Zoom | undefined {
    const step = ranks.find(({ steps }) => steps > 0)?.stepSeries.typical;
    if (step === undefined) return undefined;
    // A little of its neighbours: ranks do not begin at the same time.
    const margin = step.durationUs * 0.05;
    return new Zoom(Math.max(0, step.fromUs - margin), step.fromUs + step.durationUs + margin);
  }

  add({ ph, pid, tid, name, ts, dur, args }: TraceEvent): void {
    const to = ts + dur;
    if (ph !== 'X' || to <= this.fromUs || ts >= this.toUs || this.slices.length >= mostSlices) return;
    const row = tid === tracks.training ? 0 : tid >= tracks.operations ? tid - tracks.operations + 1 : -1;
    if (row < 0 || row > mostRows) return;
    const isInner = row > 0 && args['kind'] === undefined;
    if (isInner && !name.startsWith('NEGOTIATE')) return;
    const [from, end] = [Math.max(ts, this.fromUs) - this.fromUs, Math.min(to, this.toUs) - this.fromUs];
    this.slices.push({ rank: pid - 1, name, row, isInner, fromUs: from, toUs: end });
  }
}
