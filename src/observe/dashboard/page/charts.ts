// A chart of uPlot that follows the theme and the width of its place, keeps a zoom while data arrives, and says in words what it shows.

import { clock, count, logTick, tick } from './figures.ts';
import type { Theme } from './theme.ts';
import { type Plot, type PlotAxis, type PlotData, plotConstructor } from './uplot-types.ts';

export interface ChartLine {
  readonly label: string;
  /** A custom property of the style sheet. */
  readonly colour: string;
  readonly width: number;
  /** Filled down to zero. */
  readonly isArea?: boolean;
}

export interface ChartOptions {
  readonly height: number;
  readonly x: 'step' | 'time';
  readonly isLog: boolean;
  /** Where y ends; higher values are cut off. Default: the highest. */
  readonly largest?: (data: readonly (readonly number[])[]) => number;
  /** y begins at zero. */
  readonly fromZero: boolean;
  readonly lines: readonly ChartLine[];
  /** After the numbers of its axis, with a space. */
  readonly unit: string;
  /** The point under the cursor, undefined beside the chart. */
  readonly onCursor: (index: number | undefined) => void;
}

const font = '11px system-ui, sans-serif';

export class Chart {
  readonly #place: HTMLElement;
  readonly #theme: Theme;
  readonly #resize: ResizeObserver;
  #options: ChartOptions;
  #data: PlotData = [];
  #plot: Plot | undefined;
  #isZoomed = false;

  constructor(place: HTMLElement, theme: Theme, options: ChartOptions) {
    this.#place = place;
    this.#theme = theme;
    this.#options = options;
    place.setAttribute('role', 'img');
    this.#resize = new ResizeObserver(() => this.#fit());
    this.#resize.observe(place);
    theme.onChange(() => this.#plot?.redraw(false));
  }

  /** `words`: what the chart shows, for those who do not see it. */
  show(data: PlotData, words: string): void {
    this.#data = data;
    this.#place.setAttribute('aria-label', words);
    if (this.#plot === undefined) this.#create();
    else this.#plot.setData(data, !this.#isZoomed);
    if (this.#isZoomed) this.#plot?.redraw();
  }

  /** Draws it anew with another axis. */
  setLog(isLog: boolean): void {
    if (this.#options.isLog === isLog) return;
    this.#options = { ...this.#options, isLog };
    this.#plot?.destroy();
    this.#plot = undefined;
    if (this.#data.length > 0) this.#create();
  }

  remove(): void {
    this.#resize.disconnect();
    this.#plot?.destroy();
    this.#place.remove();
  }

  #fit(): void {
    const width = this.#place.clientWidth;
    if (width > 0) this.#plot?.setSize({ width, height: this.#options.height });
  }

  #create(): void {
    const { height, x, isLog, fromZero, lines, unit, onCursor } = this.#options;
    const formatX = x === 'time' ? (value: number) => clock(value * 1000) : count;
    const Plot = plotConstructor();
    this.#plot = new Plot(
      {
        width: Math.max(50, this.#place.clientWidth),
        height,
        padding: [8, x === 'time' ? 26 : 12, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: x }, points: { show: false }, y: false },
        scales: {
          x: { time: false },
          y: isLog
            ? { distr: 3 }
            : { range: (_, low, high) => paddedRange(low ?? 0, this.#top(high ?? 1), fromZero) },
        },
        series: [
          {},
          ...lines.map(({ label, colour, width, isArea = false }) => ({
            label,
            width,
            stroke: () => this.#theme.colour(colour),
            ...(isArea ? { fill: () => this.#theme.colour(colour) } : {}),
            points: { show: false },
          })),
        ],
        axes: [
          {
            ...this.#axis(),
            size: 24,
            space: x === 'time' ? 80 : 60,
            values: (_, splits) => splits.map(formatX),
          },
          {
            ...this.#axis(),
            size: 54,
            space: 26,
            values: (_, splits) =>
              splits.map((value) =>
                isTooMany(value, splits, isLog) ? '' : ticks(value, splits, isLog) + unit,
              ),
          },
        ],
        hooks: {
          setCursor: [({ cursor: { idx } }) => onCursor(idx ?? undefined)],
          setSelect: [
            ({ select }) => {
              if (select.width > 0) this.#isZoomed = true;
            },
          ],
        },
      },
      this.#data,
      this.#place,
    );
    this.#plot.over.addEventListener('dblclick', () => {
      this.#isZoomed = false;
      this.#plot?.setData(this.#data, true);
    });
  }

  #top(high: number): number {
    const { largest } = this.#options;
    if (largest === undefined) return high;
    const known = this.#data.map((values) => values.filter((value) => value !== null));
    return Math.min(high, largest(known) || high);
  }

  #axis(): PlotAxis {
    return {
      stroke: () => this.#theme.colour('--soft'),
      grid: { stroke: () => this.#theme.colour('--line'), width: 1 },
      ticks: { show: false },
      font,
      gap: 4,
    };
  }
}

/** All of an axis with the same number of decimals. */
function ticks(value: number, splits: readonly number[], isLog: boolean): string {
  return isLog ? logTick(value) : tick(value, (splits[1] ?? 1) - (splits[0] ?? 0));
}

/** A log axis has lines at 1, 2, 3 …; numbers only at powers of ten and, if these are few, at 2 and 5. */
function isTooMany(value: number, splits: readonly number[], isLog: boolean): boolean {
  if (!isLog) return false;
  const first = Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
  return first !== 1 && (splits.length > 30 || (first !== 2 && first !== 5));
}

export function paddedRange(low: number, high: number, fromZero: boolean): [number, number] {
  const from = fromZero ? Math.min(0, low) : low;
  // An average of equal values may differ from them in the last digit: that is a flat line, too.
  const isFlat = high - from <= Math.abs(high) * 1e-9;
  const margin = isFlat ? Math.abs(high) * 0.1 || 1 : (high - from) * 0.06;
  return [fromZero && low >= 0 ? 0 : from - margin, high + margin];
}
