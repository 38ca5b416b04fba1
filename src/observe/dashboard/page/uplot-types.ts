// The part of uPlot that the charts use, as types: vendor/uplot defines it as a global, because a saved page cannot load modules.

export interface PlotSeries {
  readonly label?: string;
  readonly stroke?: string | (() => string);
  readonly fill?: string | (() => string);
  readonly width?: number;
  readonly points?: { readonly show: boolean };
  readonly spanGaps?: boolean;
}

export interface PlotAxis {
  readonly stroke: () => string;
  readonly grid: { readonly stroke: () => string; readonly width: number };
  readonly ticks: { readonly show: boolean };
  readonly font: string;
  readonly size?: number;
  readonly space?: number;
  readonly gap?: number;
  readonly values?: (plot: Plot, splits: number[]) => (string | null)[];
}

export interface PlotOptions {
  readonly width: number;
  readonly height: number;
  readonly padding?: readonly [number, number, number, number];
  readonly legend: { readonly show: boolean };
  readonly cursor?: {
    readonly sync?: { readonly key: string };
    readonly points?: { readonly show: boolean };
    readonly y?: boolean;
  };
  readonly scales: Readonly<Record<string, PlotScale>>;
  readonly series: readonly PlotSeries[];
  readonly axes: readonly PlotAxis[];
  readonly hooks?: Readonly<Record<string, readonly ((plot: Plot) => void)[]>>;
}

export interface PlotScale {
  readonly time?: boolean;
  readonly distr?: 1 | 3;
  readonly range?: (plot: Plot, min: number | null, max: number | null) => [number, number];
}

export type PlotData = readonly (readonly (number | null)[])[];

export interface Plot {
  readonly cursor: { readonly idx?: number | null };
  readonly select: { readonly width: number };
  readonly over: HTMLElement;
  setData(data: PlotData, resetScales?: boolean): void;
  setSize(size: { readonly width: number; readonly height: number }): void;
  redraw(rebuildPaths?: boolean): void;
  destroy(): void;
}

export type PlotConstructor = new (options: PlotOptions, data: PlotData, target: HTMLElement) => Plot;

export function plotConstructor(): PlotConstructor {
  return (globalThis as unknown as { readonly uPlot: PlotConstructor }).uPlot;
}
