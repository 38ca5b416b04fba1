// The source map of a notebook's module. The compiler's map leads from the code that runs to the joined text of all cells; here its
// places are moved to the cells, one source for each. Reference: the source map format, revision 3.

/** Where a line of the joined text is from. */
export interface LineOwner {
  /** Index of the source. */
  readonly source: number;
  /** From 0. */
  readonly line: number;
}

export interface Segment {
  /** In the code that runs. */
  readonly column: number;
  readonly line: number;
  readonly sourceColumn: number;
}

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** The segments of each line, of a map with one source. */
export function decodeMappings(mappings: string): Segment[][] {
  let [line, sourceColumn] = [0, 0];
  return mappings.split(';').map((text) => {
    let column = 0;
    return text
      .split(',')
      .filter((part) => part !== '')
      .flatMap((part) => {
        const [columnStep = 0, , lineStep, sourceStep = 0] = decodeNumbers(part);
        column += columnStep;
        if (lineStep === undefined) return [];
        line += lineStep;
        sourceColumn += sourceStep;
        return [{ column, line, sourceColumn }];
      });
  });
}

/** `owners`: of each line of the joined text. Segments of lines without an owner are left out. */
export function encodeMappings(
  lines: readonly (readonly Segment[])[],
  owners: readonly (LineOwner | undefined)[],
): string {
  let [lastSource, lastLine, lastColumn] = [0, 0, 0];
  return lines
    .map((segments) => {
      let column = 0;
      return segments
        .flatMap((segment) => {
          const owner = owners[segment.line];
          if (owner === undefined) return [];
          const numbers = [
            segment.column - column,
            owner.source - lastSource,
            owner.line - lastLine,
            segment.sourceColumn - lastColumn,
          ];
          column = segment.column;
          [lastSource, lastLine, lastColumn] = [owner.source, owner.line, segment.sourceColumn];
          return [numbers.map(encodeNumber).join('')];
        })
        .join(',');
    })
    .join(';');
}

function decodeNumbers(text: string): number[] {
  const numbers: number[] = [];
  let [value, shift] = [0, 0];
  for (const digit of text) {
    const bits = digits.indexOf(digit);
    value |= (bits & 31) << shift;
    shift += 5;
    if ((bits & 32) !== 0) continue;
    numbers.push((value & 1) === 0 ? value >> 1 : -(value >> 1));
    [value, shift] = [0, 0];
  }
  return numbers;
}

function encodeNumber(value: number): string {
  let rest = value < 0 ? (-value << 1) | 1 : value << 1;
  let text = '';
  do {
    const more = rest > 31;
    text += digits[(rest & 31) | (more ? 32 : 0)];
    rest >>>= 5;
  } while (rest > 0);
  return text;
}
