// Settings of the timeline.

import { resolve } from 'node:path';
import { anyText, truth, wholeNumber } from '../kinds.ts';
import type { SettingsOf } from '../types.ts';

/** Ranks may run elsewhere: a flag means a file where it was given. DYNAMIC is no file. */
const absolute = (text: string): string => (text === '' || text === 'DYNAMIC' ? text : resolve(text));

export const timelineSettings: SettingsOf<
  'timelineFile' | 'timelineMarkCycles' | 'timelineMaxMb' | 'timelineOperationsPerSecond'
> = {
  timelineFile: {
    group: 'Watching',
    env: 'HOROVOD_TIMELINE',
    flags: [{ names: ['--timeline-filename'], operand: 'FILE', toText: absolute }],
    yaml: { key: 'timeline.filename', toText: absolute },
    kind: anyText,
    default: undefined,
    defaultText: 'none',
    text: 'Rank 0 writes a timeline of all ranks to this file, for chrome://tracing or Perfetto; DYNAMIC: only after startTimeline().',
  },
  timelineMarkCycles: {
    group: 'Watching',
    env: 'HOROVOD_TIMELINE_MARK_CYCLES',
    flags: [
      { names: ['--timeline-mark-cycles'], text: '1' },
      { names: ['--no-timeline-mark-cycles'], text: '0', isHidden: true },
    ],
    yaml: { key: 'timeline.mark_cycles' },
    kind: truth,
    default: false,
    defaultText: '0',
    text: 'Also marks in the timeline when a batch of calls leaves for the other ranks.',
  },
  timelineOperationsPerSecond: {
    group: 'Watching',
    env: 'HOROVOD_TIMELINE_OPERATIONS_PER_SECOND',
    kind: wholeNumber(),
    default: 1000,
    text: 'How many operations of each second and rank the timeline shows, the first ones; the rest is counted. 0: all.',
  },
  timelineMaxMb: {
    group: 'Watching',
    env: 'HOROVOD_TIMELINE_MAX_MB',
    kind: wholeNumber(1),
    default: 256,
    text: 'How large the file of a timeline becomes before it is renamed (trace.json to trace.1.json, in place of an older one) and a new one begun.',
  },
};
