// The heat map: ranks from top to bottom, time from left to right, the colour says how long. The cell under the pointer, or under the
// cursor of the keyboard, is described in words; a click or Enter selects its rank.

import { find, setText } from './dom.ts';
import { clock, milliseconds, rankName } from './figures.ts';
import { type HeatCells, heatCells, type Measure, slowestOf } from './heat-cells.ts';
import type { History } from './history.ts';
import type { Selection } from './selection.ts';
import type { Theme } from './theme.ts';

const leftPx = 44;
const bottomPx = 20;
const columnPx = 5;
const shades = 64;
const scaleSteps = ['--heat-0', '--heat-1', '--heat-2', '--heat-3', '--heat-4'];

export class HeatMap {
  readonly #canvas = find<HTMLCanvasElement>('heat-map');
  readonly #measure = find<HTMLSelectElement>('measure');
  readonly #theme: Theme;
  readonly #selection: Selection;
  #history: History | undefined;
  #cells: HeatCells | undefined;
  #cursor: { readonly row: number; readonly column: number } | undefined;
  #hasChosen = false;

  constructor(theme: Theme, selection: Selection) {
    this.#theme = theme;
    this.#selection = selection;
    // The keys that it takes are its own, not those of a picture.
    this.#canvas.setAttribute('role', 'application');
    this.#canvas.setAttribute('aria-label', 'Heat map of ranks over time');
    new ResizeObserver(() => this.#draw()).observe(this.#canvas.parentElement as HTMLElement);
    this.#measure.addEventListener('change', () => {
      this.#hasChosen = true;
      this.#draw();
    });
    theme.onChange(() => this.#draw());
    selection.onChange(() => this.#draw());
    this.#canvas.addEventListener('pointermove', (event) => this.#moveTo(this.#cellAt(event)));
    this.#canvas.addEventListener('pointerleave', () => this.#moveTo(undefined));
    this.#canvas.addEventListener('blur', () => this.#moveTo(undefined));
    this.#canvas.addEventListener('click', (event) => this.#select(this.#cellAt(event)?.row));
    this.#canvas.addEventListener('keydown', (event) => this.#onKey(event));
  }

  render(history: History): void {
    this.#history = history;
    const ranks = history.latest?.ranks ?? [];
    // Where nobody knows who waits, the whole step is what there is to see. The list shows which it is.
    if (!this.#hasChosen && ranks.some(({ stepMs }) => stepMs !== undefined)) {
      this.#measure.value = ranks.some(({ waitMs }) => waitMs !== undefined) ? 'work' : 'step';
    }
    this.#draw();
  }

  #draw(): void {
    const samples = this.#history?.samples ?? [];
    const isKnown = samples.some(({ ranks }) => ranks.some(({ stepMs }) => stepMs !== undefined));
    find('heat').classList.toggle('empty', !isKnown);
    if (!isKnown) {
      setText(find('slowest'), 'Step times appear here with the first training steps.');
      return;
    }
    const width = this.#canvas.parentElement?.clientWidth ?? 0;
    if (width === 0) return;
    const columns = Math.max(10, Math.min(240, Math.floor((width - leftPx) / columnPx)));
    const cells = heatCells(samples, this.#measure.value as Measure, columns);
    this.#cells = cells;
    this.#paint(cells, width);
    this.#paintScale();
    setText(find('heat-low'), cells.high === 0 ? '' : milliseconds(cells.low));
    setText(find('heat-high'), cells.high === 0 ? '' : milliseconds(cells.high));
    this.#saySlowest(cells);
    this.#sayCell();
  }

  #paint(cells: HeatCells, width: number): void {
    const { ranks, columns, values } = cells;
    const rowPx = rowPxOf(ranks.length);
    const height = Math.max(1, ranks.length) * rowPx + bottomPx;
    const pen = this.#prepare(width, height);
    if (pen === null) return;
    const cellPx = (width - leftPx) / columns;
    const colours = this.#shades();
    const gap = rowPx > 8 ? 1 : 0;
    values.forEach((value, cell) => {
      const [row, column] = [Math.floor(cell / columns), cell % columns];
      pen.fillStyle = Number.isNaN(value) ? this.#theme.colour('--none') : shadeOf(value, cells, colours);
      pen.fillRect(leftPx + column * cellPx, row * rowPx, cellPx + 0.5, rowPx - gap);
    });
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    const every = Math.ceil(14 / rowPx);
    const chosen = ranks.indexOf(this.#selection.rank ?? Number.NaN);
    ranks.forEach((rank, row) => {
      const isSelected = row === chosen;
      const isCrowded = chosen >= 0 && !isSelected && Math.abs(row - chosen) < every;
      pen.fillStyle = this.#theme.colour(isSelected ? '--ink' : '--soft');
      pen.textAlign = 'right';
      if (isSelected || (row % every === 0 && !isCrowded))
        pen.fillText(String(rank), leftPx - 8, Math.max(6, row * rowPx + rowPx / 2));
      if (isSelected) this.#outline(pen, leftPx, row * rowPx, width - leftPx, rowPx);
    });
    this.#paintTimes(pen, cells, width, height);
    if (this.#cursor !== undefined) {
      const { row, column } = this.#cursor;
      this.#outline(pen, leftPx + column * cellPx, row * rowPx, cellPx, rowPx);
    }
  }

  #prepare(width: number, height: number): CanvasRenderingContext2D | null {
    const scale = devicePixelRatio;
    this.#canvas.width = Math.round(width * scale);
    this.#canvas.height = Math.round(height * scale);
    this.#canvas.style.width = `${width}px`;
    this.#canvas.style.height = `${height}px`;
    const pen = this.#canvas.getContext('2d');
    pen?.scale(scale, scale);
    return pen;
  }

  #outline(pen: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
    pen.strokeStyle = this.#theme.colour('--ink');
    pen.lineWidth = 1.5;
    pen.strokeRect(x + 0.75, y + 0.25, width - 1.5, height - 0.5);
  }

  #paintTimes(pen: CanvasRenderingContext2D, { from, to }: HeatCells, width: number, height: number): void {
    if (to <= from) return;
    pen.fillStyle = this.#theme.colour('--soft');
    const labels = Math.max(2, Math.min(7, Math.floor((width - leftPx) / 110)));
    for (let label = 0; label < labels; label++) {
      const share = label / (labels - 1);
      pen.textAlign = label === 0 ? 'left' : label === labels - 1 ? 'right' : 'center';
      pen.fillText(clock(from + share * (to - from)), leftPx + share * (width - leftPx), height - 7);
    }
  }

  /** As many as anybody can tell apart: there are thousands of cells. */
  #shades(): string[] {
    const colours = scaleSteps.map((name) => this.#theme.colour(name));
    return Array.from({ length: shades }, (_, at) => mix(colours, at / (shades - 1)));
  }

  #paintScale(): void {
    const colours = scaleSteps.map((name) => this.#theme.colour(name));
    find('heat-scale').style.background = `linear-gradient(to right, ${colours.join(', ')})`;
  }

  #saySlowest(cells: HeatCells): void {
    const slowest = slowestOf(cells);
    const words = this.#measure.value === 'wait' ? 'waits longest' : 'is slowest';
    const text =
      slowest === undefined
        ? cells.high === 0
          ? 'Nothing to compare yet.'
          : 'No rank stands out.'
        : `${rankName(slowest.rank)} ${words} now: ${milliseconds(slowest.value)}; the middle rank: ${milliseconds(slowest.middle)}.`;
    setText(find('slowest'), text.charAt(0).toUpperCase() + text.slice(1));
  }

  #cellAt({ offsetX, offsetY }: MouseEvent): { row: number; column: number } | undefined {
    const cells = this.#cells;
    if (cells === undefined || cells.ranks.length === 0) return undefined;
    const height = this.#canvas.clientHeight - bottomPx;
    const row = Math.floor((offsetY / height) * cells.ranks.length);
    const column = Math.floor(((offsetX - leftPx) / (this.#canvas.clientWidth - leftPx)) * cells.columns);
    const isInside = row >= 0 && row < cells.ranks.length && column < cells.columns;
    return isInside ? { row, column: Math.max(0, column) } : undefined;
  }

  #moveTo(cursor: { row: number; column: number } | undefined): void {
    if (cursor?.row === this.#cursor?.row && cursor?.column === this.#cursor?.column) return;
    this.#cursor = cursor;
    if (this.#cells !== undefined) this.#paint(this.#cells, this.#canvas.parentElement?.clientWidth ?? 0);
    this.#sayCell();
  }

  #sayCell(): void {
    const { ranks, columns, values, from, to } = this.#cells ?? emptyCells;
    const { row, column } = this.#cursor ?? { row: -1, column: 0 };
    const rank = ranks[row];
    if (rank === undefined) {
      setText(find('heat-cell'), '');
      return;
    }
    const value = values[row * columns + column] as number;
    const at = clock(from + ((column + 0.5) / columns) * (to - from));
    setText(
      find('heat-cell'),
      `${rankName(rank)}, ${at}: ${Number.isNaN(value) ? 'nothing known' : milliseconds(value)}`,
    );
  }

  #select(row: number | undefined): void {
    const rank = row === undefined ? undefined : this.#cells?.ranks[row];
    if (rank !== undefined) this.#selection.toggle(rank);
  }

  #onKey(event: KeyboardEvent): void {
    const { ranks, columns } = this.#cells ?? emptyCells;
    const steps: Readonly<Record<string, readonly [number, number]>> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      Home: [0, -columns],
      End: [0, columns],
    };
    const step = steps[event.key];
    if (event.key === 'Enter' || event.key === ' ') this.#select(this.#cursor?.row);
    else if (step === undefined || ranks.length === 0) return;
    else {
      const { row, column } = this.#cursor ?? { row: 0, column: columns - 1 };
      const [down, right] = this.#cursor === undefined ? [0, 0] : step;
      this.#moveTo({ row: within(row + down, ranks.length), column: within(column + right, columns) });
    }
    event.preventDefault();
  }
}

/** Few ranks have high rows, so that colours are easy to see; many fit. */
function rowPxOf(ranks: number): number {
  const count = Math.max(1, ranks);
  const largest = Math.max(22, Math.min(44, Math.floor(180 / count)));
  return Math.max(5, Math.min(largest, Math.floor(300 / count)));
}

const emptyCells: HeatCells = {
  ranks: [],
  columns: 0,
  from: 0,
  to: 0,
  values: new Float64Array(0),
  low: 0,
  high: 0,
};

function within(value: number, size: number): number {
  return Math.max(0, Math.min(size - 1, value));
}

function shadeOf(value: number, { low, high }: HeatCells, colours: readonly string[]): string {
  const share = high > low ? Math.max(0, Math.min(1, (value - low) / (high - low))) : 0;
  return colours[Math.round(share * (colours.length - 1))] as string;
}

/** Between colours like 'rgb(1, 2, 3)' that are evenly apart. */
function mix(colours: readonly string[], share: number): string {
  const place = share * (colours.length - 1);
  const at = Math.min(colours.length - 2, Math.floor(place));
  const [from, to] = [partsOf(colours[at]), partsOf(colours[at + 1])];
  const parts = from.map((part, i) => Math.round(part + ((to[i] ?? part) - part) * (place - at)));
  return `rgb(${parts.join(', ')})`;
}

function partsOf(colour = ''): number[] {
  return (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
}
