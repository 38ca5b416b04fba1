import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planClusterJobs, TOPICS } from './cluster-jobs.mjs';
import { addLines, buildClusterTables, clusterNotes, judgeCluster } from './cluster-results.mjs';

const figure = (us) => ({ us, low: us * 0.9, high: us * 1.1, runs: [us] });
const MiB = 1 << 20;

test('every topic has its jobs: peers, ours, and the wire where there are two ranks', () => {
  const ready = { ready: true, mpirun: 'mpirun', program: 'p', python: 'python3' };
  const setup = {
    box: { shared: '/nowhere', hosts: [] },
    topics: Object.keys(TOPICS),
    quick: true,
    peers: { openmpi: ready, gloo: ready, wire: ready },
    benchFolder: '/b',
    root: '/r',
    cores: 2,
    ours: (series) => series !== 'mpi',
  };
  const names = planClusterJobs(setup).map(({ name }) => name);
  for (const name of [
    'openmpi, 2x1',
    'gloo, 2x1',
    'wire, 2x1',
    'tcp, 2x1',
    'tcp-fp16, 2x1-1gbit',
    'tcp-encrypted, 2x1-10gbit',
    'aes, 2x1-10gbit',
    'flat, 4x2',
  ])
    assert.ok(names.includes(name), name);
  assert.ok(!names.includes('mpi, 2x1'));
  assert.ok(!names.includes('wire, 4x2'));
  assert.equal(names.at(-1), 'startup, startup');
});

test('a line of 1 Gbit/s is judged by the bytes each rank must send', () => {
  const series = addLines({ '2x1-1gbit': { tcp: { [MiB]: figure(8800), [16 * MiB]: figure(160_000) } } });
  assert.equal(series['2x1-1gbit'].line[MiB].us, 8388.608);
  const judged = judgeCluster(series).find(({ target }) => target.other === 'line');
  assert.equal(judged.met, false);
  assert.equal(judged.worst.bytes, 16 * MiB);
});

test('the start is judged by what the launcher says of itself, the tables show its phases', () => {
  const series = {
    startup: { whole: { 0: figure(1.9e6) }, start: { 0: figure(1.2e6) }, ssh: { 0: figure(4e5) } },
  };
  const targets = judgeCluster(series);
  assert.equal(targets.at(-1).met, true);
  const [table, judged] = buildClusterTables({ series, targets });
  assert.deepEqual(
    table.rows.map(([phase, ms]) => [phase, ms]),
    [
      ['whole', '1900'],
      ['start', '1200'],
      ['ssh', '400'],
    ],
  );
  assert.deepEqual(judged.rows.at(-1).slice(-1), ['yes']);
});

test('what is missing or failed is told', () => {
  const notes = clusterNotes({
    peers: { gloo: { ready: false, why: 'no torch' } },
    failures: { 'tcp, 2x1': { why: 'exit code 1' } },
    runs: [],
    idleness: { before: { idle: true, load: [0] } },
    options: { rounds: 3 },
  });
  assert.ok(notes.includes('gloo: missing: no torch.'));
  assert.ok(notes.includes('tcp, 2x1: failed: exit code 1.'));
});
