// The timeline, bound to the default context.

import type { TimelineOptions } from '../../observe/timeline/timeline.ts';
import { defaultContext } from './default-context.ts';

/**
 * Records what this rank does from now on. Rank 0 writes `file`, with the tracks of all ranks that have called this; the
 * other ranks need no access to it. Not collective. A second call with the same file does nothing, with another file it fails.
 */
export async function startTimeline(file: string, options: TimelineOptions = {}): Promise<void> {
  await defaultContext().timeline.start(file, options);
}

/** Stops recording. On rank 0 the file is complete when the promise resolves. Does nothing if no timeline is running. */
export async function stopTimeline(): Promise<void> {
  await defaultContext().timeline.stop();
}
