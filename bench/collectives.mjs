// `npm run bench:collectives`: measures our allreduce against Open MPI in C, Gloo through torch and the machine's memory,
// interleaved over several rounds; prints a Markdown table per topic and writes the figures as JSON. See README.md beside.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { collectivesOptions, PEERS } from './harness/collectives-options.mjs';
import { preparePeers } from './harness/install.mjs';
import { planJobs } from './harness/jobs.mjs';
import { describePeers, runBench } from './harness/main.mjs';
import { notes } from './harness/notes.mjs';
import { runRounds } from './harness/rounds.mjs';
import { buildTables } from './harness/tables.mjs';
import { judge, TARGETS } from './harness/targets.mjs';

await runBench({
  name: 'collectives',
  options: collectivesOptions,
  needs: ['dist/index.js', 'bin/horovodrun.js'],
  kept: ['rounds', 'quick', 'sizes', 'topics'],
  prepare,
  measure,
  judge: ({ series }) => TARGETS.map((target) => judge(target, series)),
  tables: buildTables,
  notes,
  needsPeers: true,
});

async function prepare({ options, root, benchFolder, say, signal }) {
  const found = await preparePeers({ ...options, benchFolder, say, signal });
  for (const [name, { ready, why, version }] of Object.entries(found))
    say(`${name}: ${ready ? version : `missing: ${why}`}`);
  const peers = Object.fromEntries(PEERS.filter((name) => found[name]).map((name) => [name, found[name]]));
  return { peers, hasFingerprintSwitch: mentions(path.join(root, 'dist'), 'HOROVOD_BENCH_NO_FINGERPRINT') };
}

async function measure({ machine, say, signal, ...setup }) {
  const jobs = planJobs({ ...setup, cores: machine.cores });
  const measured = await runRounds(jobs, setup.options.rounds, { say, signal });
  const { peers, hasFingerprintSwitch } = setup;
  return { peers: describePeers(peers), hasFingerprintSwitch, ...measured };
}

function mentions(folder, text) {
  return readdirSync(folder, { recursive: true })
    .filter((file) => file.endsWith('.js'))
    .some((file) => readFileSync(path.join(folder, file), 'utf8').includes(text));
}
