// `npm run bench:runtime`: what watching costs (flight recorder, timeline), what autotune gains on a slow line, and what each
// compressor saves and does to the accuracy; prints Markdown tables and writes the figures as JSON. See README.md beside.
import { clearEnvironment } from './harness/cluster-jobs.mjs';
import { runBench } from './harness/main.mjs';
import { benchOptions } from './harness/options.mjs';
import { gatherSamples, interleave } from './harness/rounds.mjs';
import { planRuntimeJobs, TOPICS } from './harness/runtime-jobs.mjs';
import { buildRuntimeTables, judgeRuntime, runtimeNotes } from './harness/runtime-results.mjs';
import { withBox } from './harness/with-box.mjs';

await runBench({
  name: 'runtime',
  options: benchOptions({
    name: 'runtime',
    about: `Measures this checkout's build: the cost of the flight recorder and of the timeline, the gain of autotune between two hosts in a box
on a line of 1 Gbit/s, and bytes, time and accuracy of every compressor. Interleaved. Progress goes to stderr, tables to stdout.`,
    rounds: 5,
    quick: { rounds: 1, about: 'short runs' },
    lists: { topics: { values: Object.keys(TOPICS), about: 'all; those with hosts need root on Linux' } },
  }),
  needs: ['dist/index.js', '.dist-test/test/support/box.js'],
  kept: ['rounds', 'quick', 'topics'],
  prepare: clearEnvironment,
  measure,
  judge: ({ series }) => judgeRuntime(series),
  tables: buildRuntimeTables,
  notes: runtimeNotes,
});

async function measure({ options, root, benchFolder, say, signal }) {
  const samples = [];
  const hosts = Math.max(...options.topics.map((topic) => TOPICS[topic].hosts));
  const measured = await withBox(hosts, async (box) => {
    const jobs = planRuntimeJobs({ ...options, box, root, benchFolder });
    return await interleave(jobs, options.rounds, { say, signal }, (_job, result) => {
      samples.push(...result.samples);
    });
  });
  return { series: gatherSamples(samples), ...measured };
}
