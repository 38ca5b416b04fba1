// launch(): a notebook on all ranks, started from another notebook. This file is the public interface; what starts and shows the job is
// loaded on the first call.

import type { DashboardChoice, JobOptions, JobView } from '../run/run.ts';
import type { SparkOptions } from '../spark/run.ts';
import type { JobProgress } from './job-progress.ts';
import type { HtmlDisplay } from './kernel-display.ts';

export type { HtmlDisplay };

export interface NotebookOptions extends JobOptions {
  /** Replace values of the cell with the tag `parameters`: numbers, texts, true, false, null, and lists and objects of these. */
  parameters?: Readonly<Record<string, unknown>> | undefined;
  /** The folder for summaries (HOROVOD_TENSORBOARD_DIR), or whether TensorBoard runs beside the job. Default: where it is installed. */
  tensorboard?: boolean | string | undefined;
  /** Serve a page of the job on this machine. `control`, which lets it stop the job, is true by default. */
  dashboard?: boolean | DashboardChoice | undefined;
  /** Where progress is shown. 'auto': a box in the cells of Deno, elsewhere lines of text. For a box in tslab, `tslab.newDisplay()`. */
  display?: 'auto' | 'text' | 'none' | HtmlDisplay | undefined;
  /** What runs the ranks. 'deno': a script in the kernel of Deno, by the same Deno. Default: 'node', as found in the PATH. */
  runtime?: 'node' | 'deno' | undefined;
  /** Run the ranks in the tasks of a Spark job: `{ master: 'spark://host:7077' }`. `np` is the number of tasks. */
  spark?: SparkOptions | undefined;
  /** Print the output of the ranks. Default: only where there is no box, which shows the last lines. */
  showOutput?: boolean | undefined;
}

export interface NotebookResult {
  /** Number of ranks. */
  readonly size: number;
  /** From the start until the last rank has ended. */
  readonly elapsedMs: number;
  /** The last values that rank 0 has given to logMetrics(). The Keras callbacks do that by themselves. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** A job that can be awaited. It rejects with ERR_HVD_RUN if a rank fails, and with ERR_HVD_ABORTED if it is stopped. */
export interface NotebookJob extends Promise<NotebookResult> {
  /** Ends all ranks, and resolves when they have ended. */
  stop(): Promise<void>;
  /** What each rank is doing, as `horovod status --json` shows it. Undefined: nothing is known yet. */
  status(): JobView | undefined;
  /** What a rank has printed, or all ranks, with prefixes. Of much output, the end. */
  logs(rank?: number): string;
}

/**
 * Runs the cells of a notebook, or a script, on every rank, and shows them in this cell: `await launch('train.ipynb', { np: 4 })`.
 * Ranks run on Node, whatever the kernel is, unless `runtime` says otherwise. Throws nothing: every mistake rejects the job.
 */
export function launch(program: string | URL, options: NotebookOptions = {}): NotebookJob {
  const stopping = new AbortController();
  const { signal: given } = options;
  const signal = given === undefined ? stopping.signal : AbortSignal.any([given, stopping.signal]);
  let progress: JobProgress | undefined;
  const onProgress = (known: JobProgress) => {
    progress = known;
  };
  const result = import('./run-program.ts').then(({ runProgram }) =>
    runProgram({ program, options, signal, onProgress }),
  );
  const ended = () =>
    result.then(
      () => undefined,
      () => undefined,
    );
  // A cell that does not await the job shows its error all the same.
  if (options.display !== 'none') void ended();
  return Object.assign(result, {
    async stop() {
      stopping.abort();
      await ended();
    },
    status: () => progress?.view,
    logs: (rank?: number) => progress?.logText(rank) ?? '',
  });
}
