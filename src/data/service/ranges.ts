// Sets of whole numbers as sorted ranges [from, to) that do not touch: what is done of a group of batches is almost always
// one range. Pure.

export type Ranges = readonly (readonly [from: number, to: number])[];

export function contains(ranges: Ranges, value: number): boolean {
  return ranges.some(([from, to]) => from <= value && value < to);
}

/** The same ranges if the value is in them already. */
export function including(ranges: Ranges, value: number): Ranges {
  if (contains(ranges, value)) return ranges;
  const result: [number, number][] = [];
  let [from, to] = [value, value + 1];
  for (const range of ranges) {
    if (range[1] === from) from = range[0];
    else if (range[0] === to) to = range[1];
    else result.push([range[0], range[1]]);
  }
  result.push([from, to]);
  return result.sort((a, b) => a[0] - b[0]);
}

/** The same ranges if the value is not in them. */
export function excluding(ranges: Ranges, value: number): Ranges {
  if (!contains(ranges, value)) return ranges;
  return ranges.flatMap(([from, to]): Ranges => {
    if (value < from || value >= to) return [[from, to]];
    const parts: Ranges = [
      [from, value],
      [value + 1, to],
    ];
    return parts.filter(([first, end]) => first < end);
  });
}

export function countOf(ranges: Ranges): number {
  return ranges.reduce((sum, [from, to]) => sum + to - from, 0);
}

/** Whether a value is a list of ranges as above, for input from elsewhere. */
export function areRanges(value: unknown): value is Ranges {
  if (!Array.isArray(value)) return false;
  let end = -1;
  return value.every((range: unknown) => {
    if (!Array.isArray(range) || range.length !== 2) return false;
    const [from, to] = range as unknown[];
    if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to)) return false;
    const isNext = (from as number) > end && (to as number) > (from as number);
    end = to as number;
    return isNext;
  });
}
