// `horovod build`: compiles the addon from the C++ sources in this package. Most users have it from a package for their platform; this
// command adds what those cannot contain, the transports mpi and gloo, which are linked with the libraries of this machine.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { packageRoot } from '../../settings/package.ts';
import { settingError } from '../../settings/setting.ts';
import { buildFolders, places, projectFolder } from '../../transport/native/places.ts';
import { type CommandOutput, parseOptions, type Subcommand } from '../subcommand.ts';

const help = `Usage: horovod build [--mpi] [--gloo] [options]

Compile the native transports on this machine: the main addon (shm, tcp), and those of MPI and Gloo where they are installed.
It takes about a minute and needs a C++20 compiler (apt-get install g++).

Options:
  --mpi          Fail if MPI is missing (apt-get install libopenmpi-dev, or libmpich-dev)
  --gloo         Fail if Gloo is missing (apt-get install libgloo-dev)
  --without-mpi  Leave MPI out
  --without-gloo Leave Gloo out
  --global       Build for all projects of this user, into ~/.cache/horovod
  --out FOLDER   Build into this folder; use it with HOROVOD_NATIVE_PATH=FOLDER/horovod.node
  -h, --help     Print this help

By default the addons go to .horovod/ in the project that has installed horovod. On a cluster, the project must be in a
file system that all hosts share, or you run this command on each host. HOROVOD_WITH_MPI=1, HOROVOD_WITHOUT_MPI=1,
HOROVOD_WITH_GLOO=1 and HOROVOD_WITHOUT_GLOO=1 do the same as the flags, HOROVOD_MPICXX names the compiler of an MPI, and
CXX another C++ compiler. \`horovodrun --check-build\` shows the result.

The exit code is 0, 1 if something did not build, or 2 for usage errors.
`;

export const buildCommand: Pick<Subcommand, 'run'> = {
  async run(argv, output) {
    const { values, positionals } = parseOptions(argv, {
      mpi: { type: 'boolean' },
      gloo: { type: 'boolean' },
      'without-mpi': { type: 'boolean' },
      'without-gloo': { type: 'boolean' },
      global: { type: 'boolean' },
      out: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    });
    if (values.help) {
      output.out(help);
      return 0;
    }
    const [extra] = positionals;
    if (extra !== undefined) throw settingError(`unexpected argument ${JSON.stringify(extra)}.`);
    if (values.mpi && values['without-mpi'])
      throw settingError('--mpi and --without-mpi exclude each other.');
    if (values.gloo && values['without-gloo'])
      throw settingError('--gloo and --without-gloo exclude each other.');
    if (values.global && values.out !== undefined)
      throw settingError('--global and --out exclude each other.');
    const script = path.join(packageRoot(), 'scripts/build-native.mjs');
    const folder = values.out === undefined ? folderFor(values.global === true) : path.resolve(values.out);
    mkdirSync(folder, { recursive: true });
    const flags = ['mpi', 'gloo', 'without-mpi', 'without-gloo'] as const;
    const chosen = flags.filter((flag) => values[flag] === true).map((flag) => `--${flag}`);
    output.out(`horovod build: compiling into ${folder}\n`);
    const code = await runScript(script, ['--required', '--out', folder, ...chosen], output);
    if (code === 0) {
      output.out(
        values.out === undefined
          ? 'horovod build: done. horovodrun --check-build shows what is available.\n'
          : `horovod build: done. Set HOROVOD_NATIVE_PATH=${path.join(folder, 'horovod.node')} to use it.\n`,
      );
    }
    return code;
  },
};

function folderFor(isGlobal: boolean): string {
  const given = places();
  const project = projectFolder(given);
  if (project === undefined && !isGlobal) return path.join(given.root, 'native/build');
  const folders = buildFolders(given);
  return (isGlobal ? folders.at(-1) : folders[0]) as string;
}

/** Its lines go to our output; resolves to 0, or 1. */
function runScript(script: string, args: readonly string[], output: CommandOutput): Promise<number> {
  if (!existsSync(script)) throw settingError(`${script} is missing: this package has no C++ sources.`);
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.setEncoding('utf8').on('data', (text: string) => output.out(text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => output.error(text));
    child.on('error', reject);
    child.on('close', (code) => resolve(code === 0 ? 0 : 1));
  });
}
