// The stretch of time that is visible, in microseconds, and how it moves. Pure.

export interface Span {
  readonly fromUs: number;
  readonly toUs: number;
}

/** Nothing is shorter: clocks have a resolution of nanoseconds. */
const minLengthUs = 0.2;

/** Within the timeline, with at least the minimal length. */
export function withinEnd({ fromUs, toUs }: Span, endUs: number): Span {
  const length = Math.min(Math.max(toUs - fromUs, minLengthUs), endUs);
  const from = Math.min(Math.max(fromUs, 0), endUs - length);
  return { fromUs: from, toUs: from + length };
}

/** `factor` < 1 comes nearer. What is at `share` of the width stays there. */
export function zoomed({ fromUs, toUs }: Span, factor: number, share: number, endUs: number): Span {
  const length = toUs - fromUs;
  const next = Math.min(Math.max(length * factor, minLengthUs), endUs);
  const from = fromUs + (length - next) * share;
  return withinEnd({ fromUs: from, toUs: from + next }, endUs);
}

/** By a share of what is visible. */
export function moved({ fromUs, toUs }: Span, shares: number, endUs: number): Span {
  const by = (toUs - fromUs) * shares;
  return withinEnd({ fromUs: fromUs + by, toUs: toUs + by }, endUs);
}

/** So that a slice is in the middle and large enough to be read, without a change of scale if it is so now. */
export function around(span: Span, fromUs: number, toUs: number, endUs: number): Span {
  const length = span.toUs - span.fromUs;
  const duration = Math.max(toUs - fromUs, minLengthUs / 4);
  const isReadable = duration > length * 0.03 && duration < length * 0.9;
  const next = isReadable ? length : duration * 4;
  const middle = (fromUs + toUs) / 2;
  return withinEnd({ fromUs: middle - next / 2, toUs: middle + next / 2 }, endUs);
}

/** Round times for an axis, at least `minGapUs` apart. */
export function ticksOf({ fromUs, toUs }: Span, minGapUs: number): { atUs: number; text: string }[] {
  const power = 10 ** Math.floor(Math.log10(minGapUs));
  const gapUs = ([1, 2, 5, 10].find((factor) => factor * power >= minGapUs) ?? 10) * power;
  const ticks: { atUs: number; text: string }[] = [];
  for (let tick = Math.ceil(fromUs / gapUs); tick * gapUs <= toUs; tick++)
    ticks.push({ atUs: tick * gapUs, text: tickText(tick * gapUs, gapUs, toUs) });
  return ticks;
}

/** With as many digits as neighbours need to differ, and all in the unit of the latest one. */
function tickText(us: number, gapUs: number, latestUs: number): string {
  const [unit, perUnit] = latestUs >= 1e6 ? ['s', 1e6] : latestUs >= 1e3 ? ['ms', 1e3] : ['µs', 1];
  const digits = Math.max(0, -Math.floor(Math.log10(gapUs / perUnit) + 1e-9));
  return us === 0 ? '0' : `${(us / perUnit).toFixed(Math.min(digits, 9))} ${unit}`;
}
