// `npm run bench:chaos`: trains on 4 ranks of 2 hosts in a box while ranks are killed and stopped and a host is cut off, removed and
// added, then does the same steps undisturbed, and compares the two. Prints Markdown tables and writes the figures as JSON. See README.md beside.
import { randomInt } from 'node:crypto';
import { chaosNotes, chaosTables, compareRuns, judgeChaos } from './harness/chaos-results.mjs';
import { runChaos } from './harness/chaos-run.mjs';
import { clearEnvironment } from './harness/cluster-jobs.mjs';
import { runBench } from './harness/main.mjs';
import { benchOptions } from './harness/options.mjs';
import { withBox } from './harness/with-box.mjs';

await runBench({
  name: 'chaos',
  options: benchOptions({
    name: 'chaos',
    about: `Trains this checkout's build on 4 ranks of 2 hosts in a box (root on Linux), for some time with faults and then
the same steps undisturbed, and compares speed, loss and the samples of every step. Progress goes to stderr, tables to stdout.`,
    quick: { about: 'a minute with 8 faults' },
    texts: {
      seconds: 'how long with faults (1800)',
      faults: 'how many (30)',
      seed: 'of their order (a new one every time; the result has it)',
    },
    refine: (options) => ({
      ...options,
      seconds: Number(options.seconds ?? (options.quick ? 60 : 1800)),
      faults: Number(options.faults ?? (options.quick ? 8 : 30)),
      seed: Number(options.seed ?? randomInt(2 ** 31)),
    }),
  }),
  needs: ['dist/index.js', '.dist-test/test/support/box.js'],
  kept: ['seconds', 'faults', 'seed'],
  prepare: clearEnvironment,
  measure,
  judge: judgeChaos,
  tables: chaosTables,
  notes: chaosNotes,
});

async function measure({ options, root, benchFolder, say, signal }) {
  const measure = async (box) => {
    const setup = { box, root, benchFolder, signal, say, ...options };
    const disturbed = await runChaos(setup);
    const steps = disturbed.steps.size;
    say(`${steps} steps with faults: ${disturbed.seconds.toFixed(0)} s`);
    const undisturbed = await runChaos({ box, root, benchFolder, signal, say, steps });
    say(`undisturbed: ${undisturbed.seconds.toFixed(0)} s`);
    return { ...compareRuns(undisturbed, disturbed), failures: {}, runs: [] };
  };
  return await withBox(2, measure, 'CONTRIBUTING.md lists the packages.');
}
