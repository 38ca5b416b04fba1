// Makes the peers ready: installs what they need (apt-get, or pip into a private environment) where it is missing and
// allowed, builds them into bench/build, and says for each whether it can run and, if not, why.
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { explainFailure, runCommand } from './command.mjs';

const TEN_MINUTES = 600_000;

/**
 * @returns for every peer asked for: `{ ready: true, version, ... }` or `{ ready: false, why }`.
 */
export async function preparePeers({ peers, install, benchFolder, say, signal }) {
  const buildFolder = path.join(benchFolder, 'build');
  mkdirSync(buildFolder, { recursive: true });
  const tools = { benchFolder, buildFolder, install, say, signal };
  const prepared = {};
  if (peers.includes('openmpi') || peers.includes('openmpi-tuned')) {
    const openmpi = await prepareOpenMpi(tools);
    for (const name of ['openmpi', 'openmpi-tuned']) if (peers.includes(name)) prepared[name] = openmpi;
  }
  if (peers.includes('memory')) prepared.memory = await prepareMemory(tools);
  if (peers.includes('gloo')) prepared.gloo = await prepareGloo(tools);
  return prepared;
}

async function prepareOpenMpi(tools) {
  let mpi = await findOpenMpi(tools);
  let why = 'no Open MPI (mpicc and mpirun) on this machine';
  if (!mpi) {
    why = (await aptInstall(tools, ['openmpi-bin', 'libopenmpi-dev', 'gcc', 'libc6-dev'])) ?? why;
    mpi = await findOpenMpi(tools);
  }
  if (!mpi) return { ready: false, why };
  const [program, callProgram] = ['mpi-allreduce', 'mpi-calls'].map((name) =>
    path.join(tools.buildFolder, name),
  );
  for (const output of [program, callProgram]) {
    const source = path.join(tools.benchFolder, 'peers', `${path.basename(output)}.c`);
    const built = await runCommand(mpi.mpicc, ['-O3', source, '-o', output], { signal: tools.signal });
    if (built.failure) return { ready: false, why: `mpicc: ${explainFailure(built)}` };
  }
  return { ready: true, version: mpi.version, mpirun: mpi.mpirun, program, callProgram };
}

/** Debian's alternatives may point plain mpirun at another MPI, so the names that say Open MPI come first. */
async function findOpenMpi({ signal }) {
  for (const suffix of ['.openmpi', '']) {
    const [mpicc, mpirun] = [`mpicc${suffix}`, `mpirun${suffix}`];
    const [compiler, launcher] = await Promise.all([
      runCommand(mpicc, ['--version'], { signal }),
      runCommand(mpirun, ['--version'], { signal }),
    ]);
    const version = /\(Open MPI\) (\S+)/.exec(launcher.stdout)?.[1];
    if (!compiler.failure && version) return { mpicc, mpirun, version: `Open MPI ${version}` };
  }
  return undefined;
}

async function prepareMemory(tools) {
  const program = path.join(tools.buildFolder, 'memory-limit');
  const source = path.join(tools.benchFolder, 'peers', 'memory-limit.c');
  const compile = () =>
    runCommand('gcc', ['-O3', '-march=native', source, '-o', program], { signal: tools.signal });
  let built = await compile();
  if (built.failure) {
    const refused = await aptInstall(tools, ['gcc', 'libc6-dev']);
    if (refused) return { ready: false, why: refused };
    built = await compile();
  }
  if (built.failure) return { ready: false, why: `gcc: ${explainFailure(built)}` };
  const version = await runCommand('gcc', ['-dumpfullversion'], { signal: tools.signal });
  return { ready: true, version: `gcc ${version.stdout.trim()}`, program };
}

async function prepareGloo(tools) {
  const environment = path.join(tools.buildFolder, 'venv');
  const ownPython = path.join(environment, 'bin', 'python');
  const find = async () => {
    // Debian's python3-torch belongs to /usr/bin/python3, which need not be the python3 of the PATH.
    for (const python of [ownPython, '/usr/bin/python3', 'python3']) {
      if (python === ownPython && !existsSync(python)) continue;
      const version = await torchWithGloo(python, tools);
      if (version) return { ready: true, version: `torch ${version}`, python };
    }
    return undefined;
  };
  let why = 'no Python with torch.distributed and Gloo';
  let gloo = await find();
  if (!gloo) {
    why = (await aptInstall(tools, ['python3-torch'])) ?? why;
    gloo = await find();
  }
  if (!gloo && tools.install) {
    why = (await pipInstall(tools, environment, ownPython)) ?? why;
    gloo = await find();
  }
  if (!gloo) return { ready: false, why };
  return { ...gloo, program: path.join(tools.benchFolder, 'peers', 'gloo-allreduce.py') };
}

async function torchWithGloo(python, { signal }) {
  // is_gloo_available is younger than Debian 12's torch, whose builds always have it.
  const script = `
import torch, torch.distributed as d
assert d.is_available() and getattr(d, "is_gloo_available", lambda: True)()
print(torch.__version__)`;
  const found = await runCommand(python, ['-c', script], { signal, deadlineMs: 60_000 });
  return found.failure ? undefined : found.stdout.trim();
}

/** @returns undefined when all is installed, else why not. */
async function aptInstall({ install, say, signal }, packages) {
  const wanted = packages.join(' ');
  if (!install) return `not installed (${wanted}), and --no-install was given`;
  const asRoot = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  const apt = (...args) => {
    const [command, ...rest] = [...asRoot, 'apt-get', ...args];
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    return runCommand(command, rest, { env, signal, deadlineMs: TEN_MINUTES });
  };
  say(`installing ${wanted} with apt-get`);
  const installing = ['install', '-y', '--no-install-recommends', ...packages];
  let result = await apt(...installing);
  if (result.failure && !signal?.aborted) {
    say('apt-get failed; once more with fresh package lists');
    await apt('update');
    result = await apt(...installing);
  }
  if (!result.failure) return undefined;
  return `apt-get install ${wanted}: ${explainFailure(result)}`;
}

/** @returns undefined when torch is installed, else why not. */
async function pipInstall({ say, signal }, environment, ownPython) {
  say('installing torch with pip into bench/build/venv (large)');
  const created = await runCommand('python3', ['-m', 'venv', environment], { signal });
  if (created.failure) return `python3 -m venv: ${explainFailure(created)}`;
  const installing = ['-m', 'pip', 'install', '--quiet', 'torch', 'numpy'];
  const result = await runCommand(ownPython, installing, { signal, deadlineMs: 2 * TEN_MINUTES });
  return result.failure ? `pip install torch: ${explainFailure(result)}` : undefined;
}
