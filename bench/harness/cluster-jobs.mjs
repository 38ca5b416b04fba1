// The jobs of one round of bench/cluster.mjs: each sets the speed of its hosts' lines, starts one program on them (ours through
// horovodrun over ssh, Open MPI through mpirun over ssh, Gloo and the wire's limit host by host) and gives its figures.
import { rmSync } from 'node:fs';
import path from 'node:path';
import { jsonLines } from './command.mjs';
import { cleanEnvironment, MPI_YIELD } from './jobs.mjs';
import { KiB, MiB } from './options.mjs';

const DEADLINE_MS = 180_000;

/** Who runs where, over what. Sizes below 4 MiB fit into the buffers of a line that is slowed down: not its speed. */
export const TOPICS = {
  '2x1': { title: '2 hosts × 1 rank', hosts: 2, slots: 1, rate: 'off', gbit: undefined },
  '2x1-1gbit': { title: '2 hosts × 1 rank, 1 Gbit/s', hosts: 2, slots: 1, rate: '1gbit', gbit: 1 },
  '2x1-10gbit': { title: '2 hosts × 1 rank, 10 Gbit/s', hosts: 2, slots: 1, rate: '10gbit', gbit: 10 },
  '2x2': { title: '2 hosts × 2 ranks', hosts: 2, slots: 2, rate: 'off', gbit: undefined },
  '4x2': { title: '4 hosts × 2 ranks', hosts: 4, slots: 2, rate: 'off', gbit: undefined },
  startup: { title: 'Start of 2 hosts × 2 ranks over ssh', hosts: 2, slots: 2, rate: 'off', gbit: undefined },
};

const SIZES = {
  '2x1': [4, KiB, 16 * KiB, 64 * KiB, 256 * KiB, MiB, 16 * MiB],
  '2x1-1gbit': [MiB, 4 * MiB, 16 * MiB],
  '2x1-10gbit': [MiB, 4 * MiB, 16 * MiB],
  '2x2': [4, KiB, 64 * KiB, MiB, 16 * MiB],
  '4x2': [64 * KiB, MiB, 4 * MiB],
};
const QUICK_SIZES = {
  '2x1': [4, 64 * KiB, MiB, 16 * MiB],
  '2x1-1gbit': [4 * MiB],
  '2x1-10gbit': [4 * MiB],
  '2x2': [64 * KiB, MiB],
  '4x2': [64 * KiB, MiB],
};

/** Ours in a job of their own, by topic: name, environment and the variant of ranks/collectives.mjs. */
const flat = { HOROVOD_HIERARCHICAL_ALLREDUCE: '0', HOROVOD_HIERARCHICAL_ALLGATHER: '0' };
const encrypted = { HOROVOD_TRANSPORT: 'tcp', HOROVOD_ENCRYPT: '1' };
const OURS = {
  '2x1': [
    ['tcp', { HOROVOD_TRANSPORT: 'tcp' }],
    ['tcp-encrypted', encrypted],
    ['mpi', { HOROVOD_TRANSPORT: 'mpi' }],
    ['gloo-transport', { HOROVOD_TRANSPORT: 'gloo' }],
    ['portable', { HOROVOD_TRANSPORT: 'portable' }],
    ['portable-encrypted', { HOROVOD_TRANSPORT: 'portable', HOROVOD_ENCRYPT: '1' }],
  ],
  '2x1-1gbit': [
    ['tcp', { HOROVOD_TRANSPORT: 'tcp' }],
    ['tcp-fp16', { HOROVOD_TRANSPORT: 'tcp' }, 'fp16'],
    ['portable', { HOROVOD_TRANSPORT: 'portable' }],
  ],
  '2x1-10gbit': [
    ['tcp', { HOROVOD_TRANSPORT: 'tcp' }],
    ['tcp-encrypted', encrypted],
  ],
  '2x2': [
    ['hierarchical', { HOROVOD_TRANSPORT: 'tcp' }],
    ['flat', { HOROVOD_TRANSPORT: 'tcp', ...flat }],
    ['portable', { HOROVOD_TRANSPORT: 'portable' }],
  ],
  '4x2': [
    ['hierarchical', { HOROVOD_TRANSPORT: 'tcp' }],
    ['flat', { HOROVOD_TRANSPORT: 'tcp', ...flat }],
  ],
};

/** @param setup `{ box, topics, quick, peers, benchFolder, root, ours }`; `ours`: which of our series there are. */
export function planClusterJobs(setup) {
  const jobs = [];
  for (const topic of setup.topics) {
    if (topic === 'startup') {
      jobs.push(startup(setup));
      continue;
    }
    const sizes = (setup.quick ? QUICK_SIZES : SIZES)[topic];
    const isPair = TOPICS[topic].slots === 1;
    if (setup.peers.openmpi?.ready) {
      jobs.push(openMpi(setup, topic, sizes));
      if (!isPair) jobs.push(openMpi(setup, topic, sizes, 'openmpi-tcp'));
    }
    if (setup.peers.gloo?.ready && (isPair || topic === '2x2')) jobs.push(gloo(setup, topic, sizes));
    if (setup.peers.wire?.ready && isPair) jobs.push(wire(setup, topic, sizes));
    if (topic === '2x1-10gbit') jobs.push(aes(setup, topic, sizes));
    for (const [series, env, variant = 'horovod'] of OURS[topic]) {
      if (setup.ours(series)) jobs.push(ours(setup, topic, { series, env, variant, sizes }));
    }
  }
  return jobs;
}

const hostList = ({ hosts, slots }) =>
  Array.from({ length: hosts }, (_, index) => `host${index + 1}:${slots}`).join(',');

/**
 * Real hosts do not share cores; those of the box do, and two programs that the scheduler puts on one core measure its mood. So
 * with one rank a host each gets a core of its own, ours as well as the peers.
 */
function onOwnCore(setup, topic, rankVariable) {
  if (!hasOwnCores(setup, topic)) return [];
  return ['sh', '-c', `exec taskset -c "$${rankVariable}" "$@"`, 'sh'];
}

const hasOwnCores = (setup, topic) => TOPICS[topic].slots === 1 && TOPICS[topic].hosts <= setup.cores;

function ours(setup, topic, { series, env, variant, sizes }) {
  const argv = [
    ...horovodrun(setup, topic),
    // With mpirun ranks have their number from it.
    ...onOwnCore(setup, topic, series === 'mpi' ? 'OMPI_COMM_WORLD_RANK' : 'HOROVOD_RANK'),
    process.execPath,
    path.join(setup.benchFolder, 'ranks', 'collectives.mjs'),
    ...['--library', path.join(setup.root, 'dist/index.js')],
    ...['--variants', variant, '--sizes', sizes.join(',')],
  ];
  return job(setup, topic, series, async () => await setup.box.exec('host1', argv, { ...limits, env }));
}

function horovodrun(setup, topic, flags = []) {
  const { hosts, slots } = TOPICS[topic];
  return [
    process.execPath,
    path.join(setup.root, 'bin', 'horovodrun.js'),
    ...['-np', String(hosts * slots), '-H', hostList(TOPICS[topic]), '--no-prefix-output', ...flags],
  ];
}

/** With yield where ranks outnumber cores: spinning there would be a straw man. */
function openMpi(setup, topic, sizes, series = 'openmpi') {
  const { hosts, slots } = TOPICS[topic];
  const { mpirun, program } = setup.peers.openmpi;
  const parameters = [
    // Ranks of one host may use shared memory, as ours do, unless the series says otherwise; between hosts there is TCP only.
    ['btl', slots === 1 || series === 'openmpi-tcp' ? 'tcp,self' : 'tcp,vader,self'],
    ['btl_tcp_if_include', 'eth0'],
    ['oob_tcp_if_include', 'eth0'],
    ...(hosts * slots > setup.cores ? MPI_YIELD : []),
  ];
  const argv = [
    ...[mpirun, '--allow-run-as-root', '--bind-to', 'none', '-np', String(hosts * slots)],
    ...['-H', hostList(TOPICS[topic]), '--oversubscribe'],
    ...parameters.flatMap(([key, value]) => ['--mca', key, value]),
    ...onOwnCore(setup, topic, 'OMPI_COMM_WORLD_RANK'),
    program,
    ...sizes.map(String),
  ];
  return job(setup, topic, series, async () => await setup.box.exec('host1', argv, limits));
}

function gloo(setup, topic, sizes) {
  const { hosts, slots } = TOPICS[topic];
  const { python, program } = setup.peers.gloo;
  const store = path.join(setup.box.shared, `gloo-${topic}`);
  const argv = [python, program, String(hosts * slots), ...sizes.map(String)];
  return job(setup, topic, 'gloo', async () => {
    rmSync(store, { force: true });
    const ranks = Array.from({ length: hosts * slots }, (_, rank) => {
      const env = { RANK: String(rank), STORE: store, GLOO_SOCKET_IFNAME: 'eth0' };
      const command = [...onOwnCore(setup, topic, 'RANK'), ...argv];
      return setup.box.exec(`host${Math.floor(rank / slots) + 1}`, command, { ...limits, env });
    });
    const results = await Promise.all(ranks);
    return results.find(({ exitCode }) => exitCode !== 0) ?? results[0];
  });
}

function wire(setup, topic, sizes) {
  const { program } = setup.peers.wire;
  const run = (host, ...args) => {
    const pinning = onOwnCore(setup, topic, 'RANK');
    const env = { RANK: String(Number(host.slice('host'.length)) - 1) };
    return setup.box.exec(host, [...pinning, program, ...args, ...sizes.map(String)], { ...limits, env });
  };
  return job(setup, topic, 'wire', async () => {
    const [, connecting] = await Promise.all([
      run('host2', 'listen', '5000'),
      run('host1', 'connect', '10.77.0.2', '5000'),
    ]);
    return connecting;
  });
}

/** What the cipher alone takes of one core: every rank encrypts and decrypts as many bytes as the tensor has. */
function aes(setup, topic, sizes) {
  const program = path.join(setup.benchFolder, 'peers', 'aes-limit.mjs');
  const argv = [...onOwnCore(setup, topic, 'RANK'), process.execPath, program, ...sizes.map(String)];
  return job(setup, topic, 'aes', async () =>
    setup.box.exec('host1', argv, { ...limits, env: { RANK: '0' } }),
  );
}

const limits = { timeoutMs: DEADLINE_MS };

/** By phase, from what the launcher says of itself; `whole` is the time of the command, with a rank program that only joins. */
function startup(setup) {
  const argv = [
    ...horovodrun(setup, 'startup', ['--verbose']),
    path.join(setup.benchFolder, 'ranks', 'init-only.mjs'),
    ...['--library', path.join(setup.root, 'dist/index.js')],
  ];
  const run = async () => {
    const startedAt = performance.now();
    const result = await setup.box.exec('host1', argv, limits);
    const whole = { peer: 'whole', bytes: 0, us: (performance.now() - startedAt) * 1000 };
    const [, total, phases] = /\bstart (\d+) ms: (.*)/.exec(result.stderr) ?? [];
    const named = (phases ?? '').split(', ').flatMap((text) => {
      const [, name, ms] = /^(.+) (\d+) ms$/.exec(text.trim()) ?? [];
      return name === undefined ? [] : [{ peer: name, bytes: 0, us: Number(ms) * 1000 }];
    });
    const sum = total === undefined ? [] : [{ peer: 'start', bytes: 0, us: Number(total) * 1000 }];
    return { ...result, samples: [whole, ...sum, ...named] };
  };
  return job(setup, 'startup', 'startup', run);
}

function job(setup, topic, series, start) {
  const run = async (signal) => {
    await setRates(setup.box, TOPICS[topic].rate);
    try {
      const result = await start(signal);
      const failure =
        result.exitCode === 0 ? undefined : `exit code ${result.exitCode}: ${lastWords(result.stderr)}`;
      const samples =
        result.samples ??
        jsonLines(result.stdout)
          .filter((line) => typeof line.us === 'number')
          .map((line) => ({ ...line, peer: series }));
      return { samples: failure === undefined ? samples : [], failure };
    } catch (error) {
      return { samples: [], failure: lastWords(error.message) };
    }
  };
  return { name: `${series}, ${topic}`, topic, series: [series], run };
}

/** Every host the same; setting it again would empty the queues for nothing. */
export async function setRates(box, rate) {
  if (box.rates === rate || (box.rates === undefined && rate === 'off')) return;
  await Promise.all(box.hosts.map((host) => box.rate(host, rate)));
  box.rates = rate;
}

/** For both sides alike: settings of the caller's shell must not reach the hosts. */
export function clearEnvironment() {
  const clean = cleanEnvironment();
  for (const key of Object.keys(process.env)) if (!(key in clean)) delete process.env[key];
}

export function lastWords(text) {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .slice(-4)
    .join(' / ')
    .slice(-500);
}
