// A timeline, read from its file and summed up, and the page made of it.

import { basename } from 'node:path';
import { htmlReport, type PageOptions } from './html.ts';
import { readTrace, type TraceEnd, TraceFileError } from './read-trace.ts';
import { SliceCensus, SliceCollector, type SliceLimits } from './slices.ts';
import { SummaryBuilder, type TraceSummary } from './summary.ts';

export interface TimelineReport {
  readonly file: string;
  readonly summary: TraceSummary;
  readonly end: TraceEnd;
  readonly census: SliceCensus;
}

/** Throws TraceFileError if the file is not a timeline. */
export async function readReport(file: string): Promise<TimelineReport> {
  const builder = new SummaryBuilder();
  const census = new SliceCensus();
  const end = await readTrace(file, (event) => {
    builder.add(event);
    census.add(event);
  });
  const summary = builder.end();
  if (summary === undefined) {
    throw new TraceFileError(
      `it is not a Horovod timeline: none of its ${end.events} events belongs to a rank. ` +
        'Use a file that --timeline-filename or startTimeline() has written.',
    );
  }
  return { file, summary, end, census };
}

/** Reads the file a second time, for single slices. */
export async function pageOf(
  { file, summary, census }: TimelineReport,
  { maxSlices, ...options }: PageOptions & SliceLimits = {},
): Promise<string> {
  const slices = new SliceCollector(census, { maxSlices });
  await readTrace(file, (event) => slices.add(event));
  return htmlReport(summary, `Timeline ${basename(file)}`, slices.end(summary), options);
}
