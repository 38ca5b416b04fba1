// How long a job takes to start and end when it does nothing: horovodrun with two ranks against two bare `node`
// processes at once, which is the least it could cost.
import path from 'node:path';
import { explainFailure, runCommand } from './command.mjs';

export const STARTUP_SERIES = ['node-twice', 'horovodrun-empty', 'horovodrun-init'];

const TIMES = 5;

export async function measureStartup({ benchFolder, root, env, signal }) {
  const script = (name) => path.join(benchFolder, 'ranks', name);
  const node = (...args) => runCommand(process.execPath, args, { env, signal, deadlineMs: 60_000 });
  const launcher = [path.join(root, 'bin', 'horovodrun.js'), '-np', '2', '--no-prefix-output'];
  const library = ['--library', path.join(root, 'dist', 'index.js')];
  const starts = {
    'node-twice': () => Promise.all([node(script('empty.mjs')), node(script('empty.mjs'))]),
    'horovodrun-empty': async () => [await node(...launcher, script('empty.mjs'))],
    'horovodrun-init': async () => [await node(...launcher, script('init-only.mjs'), ...library)],
  };
  const spent = Object.fromEntries(STARTUP_SERIES.map((series) => [series, []]));
  for (let time = 0; time < TIMES; time++) {
    for (const series of STARTUP_SERIES) {
      const start = performance.now();
      const results = await starts[series]();
      const us = (performance.now() - start) * 1000;
      const failed = results.find((result) => result.failure);
      if (failed) return { samples: [], failure: `${series}: ${explainFailure(failed)}` };
      spent[series].push(us);
    }
  }
  const samples = STARTUP_SERIES.map((peer) => {
    const sorted = spent[peer].sort((a, b) => a - b);
    return { peer, bytes: 0, us: Number(sorted[TIMES >> 1].toFixed(1)) };
  });
  return { samples };
}
