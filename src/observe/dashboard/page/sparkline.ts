// A line as high as a row of text, of values whose largest is given, so that lines of several rows can be compared.

const namespace = 'http://www.w3.org/2000/svg';
const [width, height] = [100, 20];

export class Sparkline {
  readonly element: SVGSVGElement;
  readonly #path: SVGPathElement;

  constructor() {
    this.element = document.createElementNS(namespace, 'svg');
    this.element.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.element.setAttribute('preserveAspectRatio', 'none');
    this.element.setAttribute('aria-hidden', 'true');
    this.element.classList.add('sparkline');
    this.#path = document.createElementNS(namespace, 'path');
    this.element.append(this.#path);
  }

  show(values: readonly (number | undefined)[], largest: number): void {
    const path = pathOf(values, largest);
    if (this.#path.getAttribute('d') !== path) this.#path.setAttribute('d', path);
  }
}

/** A gap where there is no value. The newest is at the right edge. */
export function pathOf(values: readonly (number | undefined)[], largest: number): string {
  let isOpen = false;
  const parts = values.flatMap((value, at) => {
    if (value === undefined || largest <= 0) {
      isOpen = false;
      return [];
    }
    const x = values.length < 2 ? width : (at / (values.length - 1)) * width;
    const y = height - 1 - (value / largest) * (height - 2);
    const part = `${isOpen ? 'L' : 'M'}${round(x)} ${round(y)}`;
    isOpen = true;
    return [part];
  });
  return parts.join('');
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
