// A line as high as a row of text, with an area below it for a part of each value. The largest value is given, so that rows can be
// compared.

const namespace = 'http://www.w3.org/2000/svg';
const [width, height] = [100, 20];

export class Sparkline {
  readonly element: SVGSVGElement;
  readonly #area: SVGPathElement;
  readonly #path: SVGPathElement;

  constructor() {
    this.element = document.createElementNS(namespace, 'svg');
    this.element.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.element.setAttribute('preserveAspectRatio', 'none');
    this.element.setAttribute('aria-hidden', 'true');
    this.element.classList.add('sparkline');
    this.#area = document.createElementNS(namespace, 'path');
    this.#area.classList.add('area');
    this.#path = document.createElementNS(namespace, 'path');
    this.element.append(this.#area, this.#path);
  }

  /** `parts`: of the values, filled below them. */
  show(values: Values, parts: Values, largest: number): void {
    setPath(this.#path, pathOf(values, largest));
    setPath(this.#area, areaOf(parts, largest));
  }
}

type Values = readonly (number | undefined)[];

function setPath(target: SVGPathElement, path: string): void {
  if (target.getAttribute('d') !== path) target.setAttribute('d', path);
}

/** Columns from the bottom up: a gap is one of no height. */
export function areaOf(values: Values, largest: number): string {
  const filled = values.map((value) => value ?? 0);
  return filled.some((value) => value > 0) ? `${pathOf(filled, largest)}V${height}H0Z` : '';
}

/** A gap where there is no value. The newest is at the right edge. */
export function pathOf(values: Values, largest: number): string {
  let isOpen = false;
  const parts = values.flatMap((value, at) => {
    if (value === undefined || largest <= 0) {
      isOpen = false;
      return [];
    }
    const x = values.length < 2 ? width : (at / (values.length - 1)) * width;
    const y = height - 1 - Math.min(1, value / largest) * (height - 2);
    const part = `${isOpen ? 'L' : 'M'}${round(x)} ${round(y)}`;
    isOpen = true;
    return [part];
  });
  return parts.join('');
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
