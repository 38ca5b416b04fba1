// The timeline.

import { anyText, boolean, integer } from '../kinds.ts';
import { inGroup, onOff, type SettingsOf } from '../setting.ts';
import { absoluteLocation } from './absolute-location.ts';

export interface TimelineSettings {
  /** Undefined: none. */
  readonly timelineFile: string | undefined;
  readonly timelineMarkCycles: boolean;
  /** 0: all of them. */
  readonly timelineOperationsPerSecond: number;
  readonly timelineMaxMb: number;
}

export const timelineSettings: SettingsOf<TimelineSettings> = inGroup('Monitoring and logging', {
  timelineFile: {
    env: 'HOROVOD_TIMELINE',
    flags: [{ names: ['--timeline-filename'], operand: 'FILE', toText: absoluteLocation }],
    yaml: { key: 'timeline.filename', toText: absoluteLocation },
    kind: anyText,
    text: 'File for a timeline of all ranks, written by rank 0, for chrome://tracing or Perfetto; DYNAMIC waits for startTimeline(). With horovodrun also a URL, such as hdfs://…, to which it is copied when the job has ended.',
  },
  timelineMarkCycles: {
    env: 'HOROVOD_TIMELINE_MARK_CYCLES',
    flags: onOff('timeline-mark-cycles'),
    yaml: { key: 'timeline.mark_cycles' },
    kind: boolean,
    default: false,
    text: 'Also mark in the timeline when each batch of calls is sent to the other ranks.',
  },
  timelineOperationsPerSecond: {
    env: 'HOROVOD_TIMELINE_OPERATIONS_PER_SECOND',
    kind: integer(),
    default: 1000,
    text: 'Number of operations per second and rank that the timeline shows. Further ones are only counted. 0 shows all.',
  },
  timelineMaxMb: {
    env: 'HOROVOD_TIMELINE_MAX_MB',
    kind: integer(1),
    default: 256,
    text: 'Size in MB at which the timeline continues in a new file. trace.json becomes trace.1.json and replaces an older one.',
  },
});
