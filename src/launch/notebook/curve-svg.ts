// A curve as inline SVG, with its first, last and extreme values in words. Values that are no numbers are gaps, and are counted.

import { escapeText } from '../../observe/timeline/report/html-charts.ts';
import type { CurvePoint } from './curve-points.ts';
import { numberText } from './number-text.ts';

const [width, height, margin] = [420, 90, 4] as const;

export function curveSvg(points: readonly CurvePoint[], name: string, colour: string): string {
  const finite = points.filter(([, value]) => Number.isFinite(value));
  const gaps = points.length - finite.length;
  const odd =
    gaps === 0
      ? ''
      : `, ${String(points.findLast(([, value]) => !Number.isFinite(value))?.[1])} at ${gaps} of ${points.length} points`;
  const [first, last] = [finite[0], finite.at(-1)];
  const caption =
    first === undefined || last === undefined
      ? `${name}${odd}`
      : `${name} from ${numberText(first[1])} to ${numberText(last[1])}, steps ${first[0]} to ${last[0]}${odd}`;
  if (finite.length < 2) return `<div>${escapeText(caption)}</div>`;
  const place = scales(finite);
  const lines = runsOf(points)
    .map((run) => `<polyline points="${run.map(place).join(' ')}"/>`)
    .join('');
  return `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" style="display:block;max-width:100%"><title>${escapeText(caption)}</title><rect width="${width}" height="${height}" fill="currentColor" opacity=".05"/><g fill="none" stroke="${colour}" stroke-width="1.5" stroke-linejoin="round">${lines}</g></svg><div style="opacity:.75">${escapeText(caption)}</div>`;
}

function scales(points: readonly CurvePoint[]): (point: CurvePoint) => string {
  const range = (values: readonly number[]) => [Math.min(...values), Math.max(...values)] as const;
  const [left, right] = range(points.map(([step]) => step));
  const [low, high] = range(points.map(([, value]) => value));
  const part = (value: number, from: number, to: number) => (to > from ? (value - from) / (to - from) : 0.5);
  return ([step, value]) => {
    const x = margin + part(step, left, right) * (width - 2 * margin);
    const y = height - margin - part(value, low, high) * (height - 2 * margin);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  };
}

/** The parts of the curve between gaps. */
function runsOf(points: readonly CurvePoint[]): CurvePoint[][] {
  const runs: CurvePoint[][] = [[]];
  for (const point of points) {
    if (Number.isFinite(point[1])) runs.at(-1)?.push(point);
    else runs.push([]);
  }
  return runs.filter((run) => run.length > 0);
}
