// What the page of the report knows of single slices: collected from a trace, written into the page as JSON, drawn by page/.

export interface TimelineData {
  /** What the page shows first; the whole timeline is from 0 to `endUs`. */
  readonly view: { readonly fromUs: number; readonly toUs: number };
  readonly endUs: number;
  /** A step to show on request; undefined: there are no steps. */
  readonly step?: { readonly fromUs: number; readonly toUs: number } | undefined;
  /** Slices that are in the file and not here, because they are shorter than `minUs`. */
  readonly leftOut: number;
  readonly minUs: number;
  readonly names: readonly string[];
  /** Arguments of slices: kind, dtype, shape, bytes, error and others. */
  readonly details: readonly Details[];
  readonly ranks: readonly RankData[];
}

export type Details = Readonly<Record<string, string | number | boolean>>;

export interface RankData {
  readonly rank: number;
  /** 'rank 3' */
  readonly title: string;
  /** 'worker-b, pid 4121' */
  readonly place: string;
  readonly tracks: readonly TrackData[];
}

export interface TrackData {
  /** See `tracks` in records.ts. */
  readonly id: number;
  readonly title: string;
  /**
   * Four numbers for each slice, in the order of their starts: units since the start of the slice before, duration in units, index of
   * its name, index of its details + 1 (0: none). An instant has a duration of 0.
   */
  readonly slices: readonly number[];
}

/** One unit of a track is a nanosecond, the resolution of the file: slices that are apart stay apart. */
export const unitsPerUs = 1000;
