// What can be tuned, and where in the unit cube a setting lies: sizes on a logarithmic scale, choices as corners. The
// search knows only the cube; ranks only know values.

/** A value as it travels and is saved. */
export type KnobValue = number | string | boolean;
export type KnobValues = Readonly<Record<string, KnobValue>>;

export type Knob =
  | {
      readonly kind: 'size';
      readonly name: string;
      /** Inclusive; powers of two in steps of √2 in between. */
      readonly least: number;
      readonly most: number;
      /** Also 0, which lies below `least`. */
      readonly hasZero?: boolean;
      /** What the value is shown in. */
      readonly unit: 'bytes' | 'ms';
      readonly usual: number;
      /** Means something only where another knob has one of these values; elsewhere it is `usual`. */
      readonly needs?: { readonly name: string; readonly values: readonly KnobValue[] };
    }
  | {
      readonly kind: 'choice';
      readonly name: string;
      readonly choices: readonly (string | boolean)[];
      readonly usual: string | boolean;
    };

export function usualValues(knobs: readonly Knob[]): KnobValues {
  return Object.fromEntries(knobs.map(({ name, usual }) => [name, usual]));
}

/** Two choices: one dimension, 0 or 1. More: one for each, as none of them lies between others. */
export function dimensionsOf(knob: Knob): number {
  return knob.kind === 'choice' && knob.choices.length > 2 ? knob.choices.length : 1;
}

export function encode(knobs: readonly Knob[], values: KnobValues): number[] {
  return knobs.flatMap((knob) => {
    const value = values[knob.name];
    if (knob.kind === 'choice') {
      const place = knob.choices.indexOf(value as string | boolean);
      return knob.choices.length > 2 ? knob.choices.map((_, i) => (i === place ? 1 : 0)) : [place];
    }
    return [encodeSize(knob, value as number)];
  });
}

/** The nearest setting. */
export function decode(knobs: readonly Knob[], point: readonly number[]): KnobValues {
  const values: Record<string, KnobValue> = {};
  let at = 0;
  for (const knob of knobs) {
    const part = point.slice(at, at + dimensionsOf(knob));
    at += part.length;
    if (knob.kind === 'size') {
      values[knob.name] = decodeSize(knob, part[0] as number);
    } else {
      const place = part.length > 1 ? part.indexOf(Math.max(...part)) : Math.round(part[0] as number);
      values[knob.name] = knob.choices[place] as string | boolean;
    }
  }
  return canonical(knobs, values);
}

/** The same setting, with knobs that mean nothing in it as they usually are: no setting is tried under two names. */
function canonical(knobs: readonly Knob[], values: KnobValues): KnobValues {
  const idle = knobs.filter(
    (knob) =>
      knob.kind === 'size' &&
      knob.needs !== undefined &&
      !knob.needs.values.includes(values[knob.needs.name] ?? ''),
  );
  return { ...values, ...usualValues(idle) };
}

/** The part of the scale that 0 has. */
const zeroShare = 0.15;

type Size = Extract<Knob, { kind: 'size' }>;

function encodeSize({ least, most, hasZero }: Size, value: number): number {
  const start = hasZero === true ? zeroShare : 0;
  if (hasZero === true && value < least / 2) return 0;
  const inside = Math.min(Math.max(value, least), most);
  return start + (1 - start) * (Math.log(inside / least) / Math.log(most / least));
}

function decodeSize({ least, most, hasZero, unit }: Size, x: number): number {
  const start = hasZero === true ? zeroShare : 0;
  if (hasZero === true && x < start / 2) return 0;
  const share = Math.max(x - start, 0) / (1 - start);
  const halves = Math.round(2 * share * Math.log2(most / least));
  const value = least * 2 ** (halves / 2);
  // Whole multiples of 64 bytes; hundredths of a millisecond.
  return unit === 'bytes' ? Math.round(value / 64) * 64 : Math.round(value * 100) / 100;
}

/** 'bucketBytes 2 MiB, overlap always' */
export function showValues(knobs: readonly Knob[], values: KnobValues): string {
  return knobs.map((knob) => `${knob.name} ${showValue(knob, values[knob.name])}`).join(', ');
}

function showValue(knob: Knob, value: KnobValue | undefined): string {
  if (typeof value === 'boolean') return value ? 'on' : 'off';
  if (knob.kind === 'choice' || typeof value !== 'number') return String(value);
  if (knob.unit === 'ms') return `${value} ms`;
  for (const [bytes, unit] of [
    [2 ** 20, 'MiB'],
    [2 ** 10, 'KiB'],
  ] as const) {
    if (value >= bytes) return `${Number((value / bytes).toFixed(1))} ${unit}`;
  }
  return `${value} B`;
}

export function sameValues(a: KnobValues, b: KnobValues): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}
