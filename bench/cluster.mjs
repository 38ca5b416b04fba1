// `npm run bench:cluster`: our allreduce between hosts against Open MPI over TCP, Gloo and raw TCP, interleaved, on hosts in a box;
// prints Markdown tables and writes the figures as JSON. See README.md beside.
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { clearEnvironment, planClusterJobs, TOPICS } from './harness/cluster-jobs.mjs';
import { addLines, buildClusterTables, clusterNotes, judgeCluster } from './harness/cluster-results.mjs';
import { explainFailure, runCommand } from './harness/command.mjs';
import { preparePeers } from './harness/install.mjs';
import { describePeers, runBench } from './harness/main.mjs';
import { benchOptions } from './harness/options.mjs';
import { runRounds } from './harness/rounds.mjs';

await runBench({
  name: 'cluster',
  options: benchOptions({
    name: 'cluster',
    about: `Measures allreduce of this checkout's build between hosts in a box (root on Linux), against Open MPI over TCP, Gloo (torch) and raw
TCP, interleaved. Prints a table per topic and writes the figures as JSON. Progress goes to stderr, tables to stdout.`,
    rounds: 3,
    quick: { rounds: 1, about: 'few sizes' },
    lists: { topics: { values: Object.keys(TOPICS) } },
    canInstall: true,
  }),
  needs: ['dist/index.js', '.dist-test/test/support/box.js'],
  kept: ['rounds', 'quick', 'topics'],
  prepare,
  measure,
  judge: ({ series }) => judgeCluster(series),
  tables: buildClusterTables,
  notes: clusterNotes,
});

async function prepare({ options, benchFolder, say, signal }) {
  clearEnvironment();
  const { canUseBox, startBox } = await import('../.dist-test/test/support/box.js');
  const reason = canUseBox();
  if (reason !== undefined) throw new Error(reason);
  const { install } = options;
  const peers = await preparePeers({ peers: ['openmpi', 'gloo'], install, benchFolder, say, signal });
  peers.wire = await prepareWire(benchFolder, signal);
  return { peers, startBox };
}

async function measure({ options, root, benchFolder, machine, peers, startBox, say, signal }) {
  const box = await startBox({ hosts: Math.max(...options.topics.map((topic) => TOPICS[topic].hosts)) });
  try {
    const ours = (series) => hasSeries(series, root);
    const jobs = planClusterJobs({ ...options, box, root, benchFolder, peers, cores: machine.cores, ours });
    const measured = await runRounds(jobs, options.rounds, { say, signal });
    addLines(measured.series);
    return { peers: describePeers(peers), ...measured };
  } finally {
    await box.close();
  }
}

/** The transports that are there; tcp without the addon would be measured as portable. */
function hasSeries(series, root) {
  const addon = { mpi: 'horovod-mpi', 'gloo-transport': 'horovod-gloo' }[series] ?? 'horovod.node';
  const built = path.join(root, 'native/build');
  return series.startsWith('portable') || readdirSync(built).some((name) => name.startsWith(addon));
}

async function prepareWire(benchFolder, signal) {
  const program = path.join(benchFolder, 'build', 'net-limit');
  const source = path.join(benchFolder, 'peers', 'net-limit.c');
  const built = await runCommand('gcc', ['-O2', source, '-o', program], { signal });
  if (built.failure) return { ready: false, why: `gcc: ${explainFailure(built)}` };
  return { ready: true, version: 'peers/net-limit.c', program };
}
