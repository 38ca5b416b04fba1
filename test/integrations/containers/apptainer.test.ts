// A real Apptainer (Singularity) runs an image on hosts in a box, under mpirun and Slurm. There is no registry: the image has the Node of this
// machine, and packages where horovod.def of the examples has them.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { nativeBuilt } from '../../../src/context/default/default-membership.ts';
import { type Box, canUseBox, startBox } from '../../support/box.ts';
import { repository } from '../../support/repository.ts';

const singularity = process.env['HVD_TEST_SINGULARITY'] ?? '';
const noTool = 'no HVD_TEST_SINGULARITY (npm test -- --only integrations sets it)';
const skip =
  singularity === ''
    ? noTool
    : (canUseBox({ slurm: true, commands: ['mpirun.openmpi', 'mksquashfs'] }) ?? false);

const script = `import * as hvd from 'horovod';
await hvd.init();
const [sum] = await hvd.allreduce(Float32Array.of(hvd.rank() + 1), { op: hvd.Sum });
const facts = { rank: hvd.rank(), size: hvd.size(), local: hvd.localSize(), cross: hvd.crossSize() };
console.log(JSON.stringify({ ...facts, sum, transport: hvd.transportName(), at: import.meta.filename }));
await hvd.shutdown();
`;

interface Said {
  readonly rank: number;
  readonly size: number;
  readonly local: number;
  readonly cross: number;
  readonly sum: number;
  readonly transport: string;
}

describe('an image of Apptainer', { skip, timeout: 300_000 }, () => {
  let folder = '';
  let box: Box;
  before(async () => {
    // All hosts in a box see the checkout.
    folder = realpathSync(mkdtempSync(join(repository, '.cache/apptainer-test-')));
    build(folder);
    writeFileSync(join(folder, 'train.mjs'), script);
    box = await startBox({ hosts: 4, slurm: true });
  });
  after(async () => {
    await box?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function run(argv: readonly string[], env: Record<string, string> = {}): Promise<Said[]> {
    const path = `${dirname(singularity)}:${process.env['PATH']}`;
    const result = await box.exec('host1', ['sh', '-c', `cd '${folder}' && exec "$@"`, 'sh', ...argv], {
      env: { PATH: path, ...env },
    });
    assert.equal(result.exitCode, 0, result.stdout + result.stderr);
    const said = result.stdout.split('\n').flatMap((line) => /\{.*\}/.exec(line)?.[0] ?? []);
    return said.map((text) => JSON.parse(text) as Said).toSorted((a, b) => a.rank - b.rank);
  }

  const inContainer = ['singularity', 'exec', '--nv', 'horovod.sif', 'node', 'train.mjs'];
  const mpirun = (hosts: string, np: number) => [
    ...['mpirun.openmpi', '--allow-run-as-root', '--oversubscribe', '--bind-to', 'none'],
    ...['-mca', 'oob_tcp_if_include', 'eth0', '-mca', 'btl_tcp_if_include', 'eth0'],
    ...['-np', String(np), '-H', hosts, '-x', 'LD_LIBRARY_PATH', '-x', 'PATH'],
    ...['-x', 'HOROVOD_MPI_THREADS_DISABLE=1', '-x', 'NCCL_SOCKET_IFNAME=^virbr0,lo'],
    ...['-mca', 'btl', 'self,tcp', '-mca', 'pml', 'ob1'],
  ];
  const expected = (size: number, local: number, native = 'tcp') =>
    Array.from({ length: size }, (_, rank) => {
      const transport = nativeBuilt() ? native : 'portable';
      const sum = (size * (size + 1)) / 2;
      return { rank, size, local, cross: size / local, sum, transport };
    });
  const facts = (said: readonly Said[]) =>
    said.map(({ rank, size, local, cross, sum, transport }) => ({
      rank,
      size,
      local,
      cross,
      sum,
      transport,
    }));

  test('runs all ranks of a machine, for a script of the working directory', async () => {
    const said = await run([
      'singularity',
      'exec',
      'horovod.sif',
      '/node_modules/.bin/horovodrun',
      '-np',
      '2',
      'train.mjs',
    ]);
    assert.deepEqual(facts(said), expected(2, 2, 'shm'));
  });

  for (const hosts of [2, 4]) {
    test(`under mpirun, ${hosts} × 2 ranks: those of a host share memory`, async () => {
      const names = Array.from({ length: hosts }, (_, i) => `host${i + 1}:2`).join();
      const said = await run([...mpirun(names, 2 * hosts), ...inContainer]);
      assert.deepEqual(facts(said), expected(2 * hosts, 2));
    });
  }

  test('under Slurm, 2 × 2 ranks', async () => {
    const said = await run(['srun', '-N', '2', '-n', '4', ...inContainer]);
    assert.deepEqual(facts(said), expected(4, 2));
  });

  test('with a user namespace for each rank: they find out that they cannot share memory', async () => {
    const [first = '', exec = '', ...rest] = inContainer;
    const said = await run([...mpirun('host1:2', 2), first, exec, '--userns', ...rest]);
    assert.deepEqual(facts(said), expected(2, 1));
  });
});

/** Of this machine: its Node with the libraries it needs, and in /node_modules this package, as horovod.def has it. */
function build(folder: string): void {
  const image = join(folder, 'image');
  const add = (from: string, to: string) => cpSync(realpathSync(from), join(image, to), { recursive: true });
  for (const name of ['proc', 'sys', 'dev', 'tmp', 'root', 'var/tmp', 'etc', 'usr/bin'])
    mkdirSync(join(image, name), { recursive: true });
  for (const name of ['passwd', 'group']) writeFileSync(join(image, 'etc', name), '');
  const programs = {
    '/bin/sh': 'bin/sh',
    '/usr/bin/env': 'usr/bin/env',
    [process.execPath]: 'usr/local/bin/node',
  };
  for (const [from, to] of Object.entries(programs)) {
    add(from, to);
    for (const library of output('ldd', [from]).match(/\/\S+/g) ?? []) add(library, library);
  }
  for (const name of ['dist', 'bin', 'package.json', 'native/wasm', 'native/build'])
    if (existsSync(join(repository, name))) add(join(repository, name), join('node_modules/horovod', name));
  for (const name of ['yaml', '@swc/wasm-typescript'])
    add(join(repository, 'node_modules', name), join('node_modules', name));
  mkdirSync(join(image, 'node_modules/.bin'));
  symlinkSync('../horovod/bin/horovodrun.js', join(image, 'node_modules/.bin/horovodrun'));
  chmodSync(join(image, 'node_modules/horovod/bin/horovodrun.js'), 0o755);
  const uncompressed = ['--mksquashfs-args', '-noI -noD -noF -noX'];
  output(singularity, ['build', ...uncompressed, join(folder, 'horovod.sif'), image], {
    APPTAINER_CACHEDIR: join(folder, 'cache'),
    APPTAINER_TMPDIR: folder,
  });
  rmSync(image, { recursive: true });
}

function output(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): string {
  const options = { encoding: 'utf8', env: { ...process.env, ...env }, timeout: 120_000 } as const;
  const { status, stdout, stderr } = spawnSync(command, args, options);
  assert.equal(status, 0, `${command} ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}
