// What `horovod doctor` finds without starting a rank: the machine, the addons, the frameworks and the launchers.

import { spawnSync } from 'node:child_process';
import { readFileSync, statfsSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { bytesText } from '../../console/amounts.ts';
import { describeMpi, findMpirun } from '../../launch/mpirun/mpi-family.ts';
import { allowedCores } from '../../launch/spawn/allowed-cores.ts';
import { GpuMeter } from '../../observe/hosts/gpu-use.ts';
import { libcOfThisNode } from '../../settings/libc.ts';
import { packageRoot, packageVersion } from '../../settings/package.ts';
import type { Settings } from '../../settings/table.ts';
import { describeNative } from '../../transport/native/describe-native.ts';
import type { Finding, Section } from './finding.ts';

/** Below this, the shared memory of a few ranks may not fit; containers have 64 MiB by default. */
const enoughSharedMemory = 256 * 2 ** 20;

export async function describeMachine(settings: Settings, env: NodeJS.ProcessEnv): Promise<Section[]> {
  return [
    { title: 'Machine', findings: [system(), processor(), sharedMemory()].flat() },
    { title: 'Native transports', findings: addons(settings) },
    { title: 'Frameworks', findings: frameworks.map(framework) },
    { title: 'Launchers', findings: [ssh(env), await mpirun(settings, env)] },
    { title: 'GPUs', findings: await gpus(env) },
  ];
}

function system(): Finding {
  const libc = process.platform === 'linux' ? `, ${libcText()}` : '';
  const detail = `horovod ${packageVersion()}, Node ${process.version}, ${process.platform} ${process.arch} ${os.release()}${libc}`;
  return { state: 'ok', name: 'system', detail };
}

function libcText(): string {
  if (libcOfThisNode() === 'musl') return 'musl';
  const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
  return `glibc ${header.glibcVersionRuntime ?? ''}`.trim();
}

function processor(): Finding {
  const [first] = os.cpus();
  const cores = allowedCores();
  const detail = `${cores} ${cores === 1 ? 'core' : 'cores'} for this user (${first?.model.trim() ?? 'unknown'}), ${bytesText(os.totalmem())} of memory`;
  return { state: 'ok', name: 'processor', detail };
}

/** Memory files do not need it, but named ones on systems without /proc do, and MPI. */
function sharedMemory(): Finding[] {
  if (process.platform !== 'linux') return [];
  const name = '/dev/shm';
  try {
    const { bavail, blocks, bsize } = statfsSync(name);
    const [free, total] = [bavail * bsize, blocks * bsize];
    const detail = `${bytesText(free)} of ${bytesText(total)} free`;
    return free >= enoughSharedMemory
      ? [{ state: 'ok', name, detail }]
      : [
          {
            state: 'failed',
            name,
            detail,
            advice: 'in a container, start it with more: docker run --shm-size=1g',
          },
        ];
  } catch {
    return [
      { state: 'failed', name, detail: 'does not exist', advice: 'mount it: mount -t tmpfs tmpfs /dev/shm' },
    ];
  }
}

function addons(settings: Settings): Finding[] {
  const search = { native: settings.native, nativePath: settings.nativePath };
  const describe = (name: string, needed: boolean, found: ReturnType<typeof describeNative>): Finding => {
    if (found.built) return { state: 'ok', name, detail: found.path ?? '' };
    const [detail, ...advice] = (found.reason ?? 'not built').split('; ');
    return {
      state: needed ? 'failed' : 'absent',
      name,
      detail: detail as string,
      advice: advice.length === 0 ? undefined : advice.join('; '),
    };
  };
  return [
    describe('shm, tcp', true, describeNative(search)),
    describe(
      'Open MPI',
      false,
      describeNative({ ...search, transport: 'mpi', launcher: { kind: 'open-mpi' } }),
    ),
    describe('MPICH', false, describeNative({ ...search, transport: 'mpi', launcher: { kind: 'pmi' } })),
    describe('Gloo', false, describeNative({ ...search, transport: 'gloo' })),
  ];
}

const frameworks = [
  '@tensorflow/tfjs',
  '@tensorflow/tfjs-backend-wasm',
  '@tensorflow/tfjs-node',
  '@jax-js/jax',
] as const;

/** As the user's project sees it: resolved from the working directory, then from this package. */
function framework(name: string): Finding {
  for (const from of [path.join(process.cwd(), 'package.json'), path.join(packageRoot(), 'package.json')]) {
    const version = versionFrom(from, name);
    if (version !== undefined) return { state: 'ok', name, detail: version };
  }
  return { state: 'absent', name, detail: 'not installed', advice: `npm install ${name}` };
}

function versionFrom(from: string, name: string): string | undefined {
  try {
    // Not package.json itself, which `exports` may hide.
    const entry = createRequire(from).resolve(name);
    const folder = entry.slice(0, entry.lastIndexOf(path.join('node_modules', name)));
    const manifest = readFileSync(path.join(folder, 'node_modules', name, 'package.json'), 'utf8');
    return (JSON.parse(manifest) as { version: string }).version;
  } catch {
    return undefined;
  }
}

function ssh(env: NodeJS.ProcessEnv): Finding {
  const { status, stderr } = spawnSync('ssh', ['-V'], { encoding: 'utf8', env, timeout: 10_000 });
  if (status === 0) return { state: 'ok', name: 'ssh', detail: stderr.trim() };
  const advice = 'for other hosts: apt-get install openssh-client';
  return { state: 'absent', name: 'ssh', detail: 'not found on the PATH', advice };
}

async function mpirun(settings: Settings, env: NodeJS.ProcessEnv): Promise<Finding> {
  const found = await findMpirun(settings.mpirun, env);
  return typeof found === 'string'
    ? {
        state: 'absent',
        name: 'mpirun',
        detail: found,
        advice: 'for --mpi: apt-get install openmpi-bin libopenmpi-dev',
      }
    : { state: 'ok', name: 'mpirun', detail: describeMpi(found) };
}

async function gpus(env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const meter = new GpuMeter();
  const found = await meter.look();
  meter.close();
  const visible = env['CUDA_VISIBLE_DEVICES'];
  const listed = found.map(({ index, name, totalBytes }): Finding => {
    const memory = totalBytes === undefined ? '' : `, ${bytesText(totalBytes)}`;
    return { state: 'ok', name: `GPU ${index}`, detail: `${name}${memory}` };
  });
  const none: Finding = { state: 'absent', name: 'nvidia-smi', detail: 'no GPU of NVIDIA was found' };
  const limit: Finding[] =
    visible === undefined
      ? []
      : [{ state: 'ok', name: 'CUDA_VISIBLE_DEVICES', detail: visible || '(empty: none)' }];
  return [...(listed.length > 0 ? listed : [none]), ...limit];
}
