// The jobs of one round: one process tree each, printing `{"peer","bytes","us"}` lines. A job says which topic its
// figures belong to, which series it promises (so that one that fails can be named), and how to run it.
import path from 'node:path';
import { callJobs, MPI_CALL_SIZES, MPI_CALLS } from './calls.mjs';
import { RESNET50_BYTES } from './collectives-options.mjs';
import { explainFailure, jsonLines, runCommand } from './command.mjs';
import { KiB } from './options.mjs';
import { measureStartup, STARTUP_SERIES } from './startup.mjs';

export const MPI_TUNED = [
  ['coll_tuned_use_dynamic_rules', '1'],
  ['coll_tuned_allreduce_algorithm', '5'],
  ['coll_tuned_allreduce_algorithm_segmentsize', '131072'],
];
export const MPI_YIELD = [['mpi_yield_when_idle', '1']];

const MEMORY_FROM = 16 * KiB;
const READ_FROM = 64 * KiB;
// Agreement costs the same at every size; above this it drowns in the operation.
const AGREEMENT_TO = 64 * KiB;

/**
 * @param setup `{ options, peers, benchFolder, root, cores, hasFingerprintSwitch }`, peers as from preparePeers.
 */
export function planJobs(setup) {
  const { options, peers } = setup;
  const has = (topic) => options.topics.includes(topic);
  const ready = (name) => peers[name]?.ready === true;
  const jobs = [];
  const sizes = has('allreduce') ? options.sizes : [];
  const withResnet = has('resnet50') ? [...new Set([...sizes, RESNET50_BYTES])] : sizes;
  if (withResnet.length > 0) {
    if (ready('openmpi')) jobs.push(openMpi(setup, 'openmpi', withResnet));
    if (ready('openmpi-tuned')) jobs.push(openMpi(setup, 'openmpi-tuned', withResnet));
    if (ready('gloo')) jobs.push(gloo(setup, withResnet));
    const large = withResnet.filter((bytes) => bytes >= MEMORY_FROM);
    if (ready('memory') && large.length > 0) jobs.push(memory(setup, large));
  }
  if (has('allreduce')) jobs.push(...ourAllreduce(setup, sizes));
  if (has('resnet50')) {
    jobs.push(
      ours(setup, { name: 'resnet50', topic: 'resnet50', script: 'resnet50.mjs', series: RESNET50_SERIES }),
    );
  }
  if (has('oversubscribed')) {
    const job = { name: 'horovod, 4 ranks', topic: 'oversubscribed', ranks: 4, variants: ['horovod'] };
    jobs.push(ours(setup, { ...job, sizes: options.sizes }));
    if (ready('openmpi')) jobs.push(openMpi(setup, 'openmpi-yield', options.sizes));
  }
  if (has('calls')) {
    for (const job of callJobs()) jobs.push(ours(setup, { ...job, topic: 'calls', script: 'calls.mjs' }));
    if (ready('openmpi')) jobs.push(mpiCalls(setup));
  }
  if (has('startup')) jobs.push(startup(setup));
  return jobs;
}

const RESNET50_SERIES = ['one', 'grouped', 'one-alloc', 'grouped-alloc'];

function ourAllreduce(setup, sizes) {
  const jobs = [];
  const add = (name, variants, some, rest = {}) => {
    if (some.length > 0) jobs.push(ours(setup, { name, topic: 'allreduce', variants, sizes: some, ...rest }));
  };
  add('horovod', ['horovod', 'prepared', 'alloc', 'await'], sizes);
  const large = sizes.filter((bytes) => bytes >= READ_FROM);
  add('horovod, result read', ['read', 'alloc-read'], large);
  add('portable', ['horovod'], sizes, { rename: { horovod: 'portable' }, env: { HOROVOD_NATIVE: '0' } });
  if (setup.hasFingerprintSwitch) {
    const small = sizes.filter((bytes) => bytes <= AGREEMENT_TO);
    const env = { HOROVOD_BENCH_NO_FINGERPRINT: '1' };
    add('no fingerprint', ['horovod'], small, { rename: { horovod: 'no-fingerprint' }, env });
  }
  return jobs;
}

/** One of our own programs under our own launcher. */
function ours(setup, { name, topic, ranks = 2, script = 'collectives.mjs', variants = [], series, ...rest }) {
  const { sizes = [], rename = {}, env = {}, flags = [] } = rest;
  const args = [
    path.join(setup.root, 'bin', 'horovodrun.js'),
    ...['-np', String(ranks), '--no-prefix-output'],
    path.join(setup.benchFolder, 'ranks', script),
    ...['--library', path.join(setup.root, 'dist/index.js')],
    ...(variants.length > 0 ? ['--variants', variants.join(','), '--sizes', sizes.join(',')] : []),
    ...flags,
  ];
  const promised = series ?? variants.map((variant) => rename[variant] ?? variant);
  return commandJob({ name, topic, series: promised, rename }, process.execPath, args, cleanEnvironment(env));
}

function openMpi(setup, series, sizes) {
  const { mpirun, program } = setup.peers[series === 'openmpi-yield' ? 'openmpi' : series];
  const ranks = series === 'openmpi-yield' ? 4 : 2;
  const parameters = { 'openmpi-tuned': MPI_TUNED, 'openmpi-yield': MPI_YIELD }[series] ?? [];
  const args = [
    ...(process.getuid?.() === 0 ? ['--allow-run-as-root'] : []),
    ...['--bind-to', 'none', '-np', String(ranks)],
    ...(ranks > setup.cores ? ['--oversubscribe'] : []),
    ...parameters.flatMap(([key, value]) => ['--mca', key, value]),
    program,
    ...sizes.map(String),
  ];
  const topic = series === 'openmpi-yield' ? 'oversubscribed' : 'allreduce';
  return commandJob({ name: series, topic, series: [series], rename: { openmpi: series } }, mpirun, args);
}

function mpiCalls(setup) {
  const { mpirun, callProgram } = setup.peers.openmpi;
  const args = [
    ...(process.getuid?.() === 0 ? ['--allow-run-as-root'] : []),
    ...['--bind-to', 'none', '-np', '2', callProgram],
    ...MPI_CALL_SIZES.map(String),
  ];
  return commandJob({ name: 'openmpi, calls', topic: 'calls', series: MPI_CALLS }, mpirun, args);
}

function gloo(setup, sizes) {
  const { python, program } = setup.peers.gloo;
  return commandJob({ name: 'gloo', topic: 'allreduce', series: ['gloo'] }, python, [
    program,
    '2',
    ...sizes.map(String),
  ]);
}

function memory(setup, sizes) {
  const { program } = setup.peers.memory;
  return commandJob(
    { name: 'memory', topic: 'allreduce', series: ['memcpy', 'add'] },
    program,
    sizes.map(String),
  );
}

function startup(setup) {
  const run = (signal) => measureStartup({ ...setup, env: cleanEnvironment(), signal });
  return { name: 'start-up', topic: 'startup', series: STARTUP_SERIES, run };
}

function commandJob({ name, topic, series, rename = {} }, command, args, env = cleanEnvironment()) {
  const run = async (signal) => {
    const result = await runCommand(command, args, { env, signal });
    const lines = jsonLines(result.stdout);
    const samples = lines
      .filter((line) => typeof line.us === 'number')
      .map((line) => ({ ...line, peer: rename[line.peer] ?? line.peer }));
    const native = lines.find((line) => typeof line.native === 'boolean')?.native;
    const failure = explainFailure(result);
    return { samples, native, failure };
  };
  return { name, topic, series, run };
}

/** Settings of the caller's shell must not reach one side of the comparison. */
export function cleanEnvironment(extra = {}) {
  const kept = Object.entries(process.env).filter(([key]) => !/^(HOROVOD|OMPI|PMIX|OMP)_/.test(key));
  return { ...Object.fromEntries(kept), ...extra };
}
