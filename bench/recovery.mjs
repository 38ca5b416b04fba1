// `npm run bench:recovery`: how long an elastic job takes to go on after a rank is killed, to get back to its full size, to take in a
// host, and what a commit costs; prints Markdown tables and writes the figures as JSON. See README.md beside.
import { clearEnvironment } from './harness/cluster-jobs.mjs';
import { runBench } from './harness/main.mjs';
import { benchOptions } from './harness/options.mjs';
import { planRecoveryJobs, TOPICS } from './harness/recovery-jobs.mjs';
import { buildRecoveryTables, judgeRecovery, recoveryNotes } from './harness/recovery-results.mjs';
import { gatherSamples, interleave } from './harness/rounds.mjs';
import { withBox } from './harness/with-box.mjs';

await runBench({
  name: 'recovery',
  options: benchOptions({
    name: 'recovery',
    about: `Measures elastic jobs of this checkout's build: kills ranks of jobs on this machine and on two hosts in a box, adds a host, and
trains with and without commits. Progress goes to stderr, tables to stdout.`,
    rounds: 5,
    quick: { rounds: 1, about: 'short windows' },
    lists: { topics: { values: Object.keys(TOPICS), about: 'all; those with hosts need root on Linux' } },
  }),
  needs: ['dist/index.js', '.dist-test/test/support/box.js'],
  kept: ['rounds', 'quick', 'topics'],
  prepare: clearEnvironment,
  measure,
  judge: ({ series }) => judgeRecovery(series),
  tables: buildRecoveryTables,
  notes: recoveryNotes,
});

async function measure({ options, root, benchFolder, say, signal }) {
  const samples = [];
  const hosts = Math.max(...options.topics.map((topic) => TOPICS[topic].hosts));
  const measured = await withBox(hosts, async (box) => {
    const jobs = planRecoveryJobs({ ...options, box, root, benchFolder });
    return await interleave(jobs, options.rounds, { say, signal }, (_job, result) => {
      samples.push(...result.samples);
    });
  });
  return { series: gatherSamples(samples), ...measured };
}
