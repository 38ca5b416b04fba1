// The face of `horovod/notebook`: jobs that a notebook starts.

export type { DashboardChoice, DiscoveredHost, JobOptions, JobView } from '../run/run.ts';
export type { SparkOptions } from '../spark/run.ts';
export {
  type HtmlDisplay,
  launch,
  type NotebookJob,
  type NotebookOptions,
  type NotebookResult,
} from './launch.ts';
