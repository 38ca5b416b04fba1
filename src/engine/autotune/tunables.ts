// What can be tuned, and where in the unit cube a setting lies: sizes on a logarithmic scale, choices as corners. The
// search knows only the cube; ranks only know values.

/** A value as it travels and is saved. */
export type TunableValue = number | string | boolean;
export type TunableValues = Readonly<Record<string, TunableValue>>;

export type Tunable =
  | {
      readonly kind: 'size';
      readonly name: string;
      /** Inclusive; powers of two in steps of √2 in between. */
      readonly min: number;
      readonly max: number;
      /** Also 0, which lies below `min`. */
      readonly hasZero?: boolean;
      /** What the value is shown in. */
      readonly unit: 'bytes' | 'ms';
      readonly defaultValue: number;
      /** Means something only where another tunable has one of these values; elsewhere it is `defaultValue`. */
      readonly needs?: { readonly name: string; readonly values: readonly TunableValue[] };
    }
  | {
      readonly kind: 'choice';
      readonly name: string;
      readonly choices: readonly (string | boolean)[];
      readonly defaultValue: string | boolean;
    };

export function defaultValues(tunables: readonly Tunable[]): TunableValues {
  return Object.fromEntries(tunables.map(({ name, defaultValue }) => [name, defaultValue]));
}

/** Two choices: one dimension, 0 or 1. More: one for each, as none of them lies between others. */
export function dimensionsOf(tunable: Tunable): number {
  return tunable.kind === 'choice' && tunable.choices.length > 2 ? tunable.choices.length : 1;
}

export function encode(tunables: readonly Tunable[], values: TunableValues): number[] {
  return tunables.flatMap((tunable) => {
    const value = values[tunable.name];
    if (tunable.kind === 'choice') {
      const place = tunable.choices.indexOf(value as string | boolean);
      return tunable.choices.length > 2 ? tunable.choices.map((_, i) => (i === place ? 1 : 0)) : [place];
    }
    return [encodeSize(tunable, value as number)];
  });
}

/** The nearest setting. */
export function decode(tunables: readonly Tunable[], point: readonly number[]): TunableValues {
  const values: Record<string, TunableValue> = {};
  let at = 0;
  for (const tunable of tunables) {
    const part = point.slice(at, at + dimensionsOf(tunable));
    at += part.length;
    if (tunable.kind === 'size') {
      values[tunable.name] = decodeSize(tunable, part[0] as number);
    } else {
      const place = part.length > 1 ? part.indexOf(Math.max(...part)) : Math.round(part[0] as number);
      values[tunable.name] = tunable.choices[place] as string | boolean;
    }
  }
  return canonical(tunables, values);
}

/** The same setting, with tunables that mean nothing in it at their defaults: no setting is tried under two names. */
function canonical(tunables: readonly Tunable[], values: TunableValues): TunableValues {
  const idle = tunables.filter(
    (tunable) =>
      tunable.kind === 'size' &&
      tunable.needs !== undefined &&
      !tunable.needs.values.includes(values[tunable.needs.name] ?? ''),
  );
  return { ...values, ...defaultValues(idle) };
}

/** The part of the scale that 0 has. */
const zeroShare = 0.15;

type Size = Extract<Tunable, { kind: 'size' }>;

function encodeSize({ min, max, hasZero }: Size, value: number): number {
  const start = hasZero === true ? zeroShare : 0;
  if (hasZero === true && value < min / 2) return 0;
  const inside = Math.min(Math.max(value, min), max);
  return start + (1 - start) * (Math.log(inside / min) / Math.log(max / min));
}

function decodeSize({ min, max, hasZero, unit }: Size, x: number): number {
  const start = hasZero === true ? zeroShare : 0;
  if (hasZero === true && x < start / 2) return 0;
  const share = Math.max(x - start, 0) / (1 - start);
  const halves = Math.round(2 * share * Math.log2(max / min));
  const value = min * 2 ** (halves / 2);
  // Whole multiples of 64 bytes; hundredths of a millisecond.
  return unit === 'bytes' ? Math.round(value / 64) * 64 : Math.round(value * 100) / 100;
}

/** 'bucketBytes 2 MiB, overlap always' */
export function showValues(tunables: readonly Tunable[], values: TunableValues): string {
  return tunables.map((tunable) => `${tunable.name} ${showValue(tunable, values[tunable.name])}`).join(', ');
}

function showValue(tunable: Tunable, value: TunableValue | undefined): string {
  if (typeof value === 'boolean') return value ? 'on' : 'off';
  if (tunable.kind === 'choice' || typeof value !== 'number') return String(value);
  if (tunable.unit === 'ms') return `${value} ms`;
  for (const [bytes, unit] of [
    [2 ** 20, 'MiB'],
    [2 ** 10, 'KiB'],
  ] as const) {
    if (value >= bytes) return `${Number((value / bytes).toFixed(1))} ${unit}`;
  }
  return `${value} B`;
}

export function sameValues(a: TunableValues, b: TunableValues): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}
