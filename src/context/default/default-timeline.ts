// The timeline, bound to the default context.

import type { TimelineOptions } from '../../observe/timeline/timeline.ts';
import { defaultContext } from './default-context.ts';

/**
 * Notes down what this rank does from now on. Rank 0 writes `file`, with the tracks of all ranks that have called this;
 * the others need not be able to. Not collective. One at a time: the same file again is nothing new, another one is an error.
 */
export async function startTimeline(file: string, options: TimelineOptions = {}): Promise<void> {
  await defaultContext().timeline.start(file, options);
}

/** Ends it. On rank 0 the file is complete when it resolves. Without a timeline nothing happens. */
export async function stopTimeline(): Promise<void> {
  await defaultContext().timeline.stop();
}
