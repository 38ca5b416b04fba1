// Apptainer (Singularity) for test/integrations/containers. Debian has it in unstable alone, so apt-get fetches it and its libraries from there
// into .cache, beside the system: nothing of it is installed.

import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { installOnCi } from './system-packages.mjs';
import { capture, findCommand } from './tools.mjs';

const timeoutMs = 600_000;
/** Packages of the system. */
const needed = { mksquashfs: 'squashfs-tools', patchelf: 'patchelf' };
const unstable = ['apptainer', 'libc6', 'libseccomp2', 'libsqlite3-0'];

/** Fills `folder`, and resolves to why it could not. */
export async function installApptainer(folder) {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'Apptainer is tested on Linux x64 only';
  if (process.getuid?.() !== 0 || findCommand('apt-get') === undefined)
    return 'images are built as root, on Debian or Ubuntu';
  const missing = Object.entries(needed).filter(([command]) => findCommand(command) === undefined);
  if (missing.length > 0) await installOnCi(missing.map(([, name]) => name));
  const lacking = Object.entries(needed).find(([command]) => findCommand(command) === undefined);
  if (lacking !== undefined) return `no ${lacking[0]} (apt-get install ${lacking[1]})`;
  const reason = await fetchApptainer(folder);
  if (reason !== undefined) return reason;
  const works = await capture(join(folder, 'bin/singularity'), ['--version'], { timeoutMs });
  return works.code === 0 ? undefined : `Apptainer does not run here: ${lastLine(works.text)}`;
}

async function fetchApptainer(folder) {
  const apt = join(folder, 'apt');
  for (const name of ['lists/partial', 'cache/archives/partial', 'debs'])
    mkdirSync(join(apt, name), { recursive: true });
  const archive = await debianArchive();
  if (archive === undefined) return 'apt-get knows no archive of Debian, which has Apptainer';
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';
  writeFileSync(join(apt, 'sources.list'), `deb [signed-by=${keys}] ${archive} unstable main\n`);
  writeFileSync(join(apt, 'status'), '');
  const options = {
    'Dir::Etc::sourcelist': join(apt, 'sources.list'),
    'Dir::Etc::sourceparts': '/dev/null',
    'Dir::State::lists': join(apt, 'lists'),
    'Dir::State::status': join(apt, 'status'),
    'Dir::Cache': join(apt, 'cache'),
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
  };
  const own = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  const root = join(folder, 'root');
  const libraries = join(root, 'usr/lib/x86_64-linux-gnu');
  const programs = [join(root, 'usr/bin/apptainer'), join(libraries, 'apptainer/bin/starter')];
  const steps = [
    ['apt-get', [...own, 'update', '-qq']],
    ['apt-get', [...own, 'download', '-qq', ...unstable], { cwd: join(apt, 'debs') }],
    ['sh', ['-c', `for deb in '${apt}'/debs/*.deb; do dpkg-deb -x "$deb" '${root}' || exit 1; done`]],
    // With the libraries beside it: those of this machine are older.
    ...programs.map((program) => [
      'patchelf',
      [
        '--set-interpreter',
        join(libraries, 'ld-linux-x86-64.so.2'),
        '--force-rpath',
        '--set-rpath',
        libraries,
        program,
      ],
    ]),
  ];
  for (const [command, args, more] of steps) {
    const { code, text } = await capture(command, args, { timeoutMs, ...more });
    if (code !== 0) return `${command} could not fetch Apptainer: ${lastLine(text)}`;
  }
  // It looks for its settings beside its programs.
  for (const place of ['usr', 'usr/lib'])
    for (const name of ['etc', 'var']) symlinkSync(join(root, name), join(root, place, name));
  mkdirSync(join(root, 'var/lib/apptainer/mnt/session'), { recursive: true });
  const settings = join(root, 'etc/apptainer/apptainer.conf');
  // Root of a container of a CI service has not all capabilities to give away.
  const text = readFileSync(settings, 'utf8').replace(
    /^root default capabilities = .*/m,
    'root default capabilities = no',
  );
  writeFileSync(settings, text);
  mkdirSync(join(folder, 'bin'));
  for (const name of ['singularity', 'apptainer']) symlinkSync(programs[0], join(folder, 'bin', name));
  rmSync(apt, { recursive: true });
  return undefined;
}

/** The one from which this machine has its packages. */
async function debianArchive() {
  const { code, text } = await capture('apt-get', ['indextargets', '--format', '$(REPO_URI)'], { timeoutMs });
  return code === 0 ? text.split('\n').find((line) => /^\w+:.*\/debian\/?$/.test(line)) : undefined;
}

function lastLine(text) {
  return (text.trim().split('\n').at(-1) ?? '').slice(0, 200);
}
