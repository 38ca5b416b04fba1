// For `npm test -- --changed`: finds out from git which files differ from a revision, and which files depend on them.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { affected, dependencyGraph } from './affected.mjs';
import { filesBelow, inRepository, repositoryRoot } from './tools.mjs';

const folders = [
  'src',
  'test',
  'bench',
  'bin',
  'examples',
  'docs',
  'native/src',
  'native/test',
  'native/wasm',
];
const isSource = /\.(ts|mjs|js)$/;

/** What the change since `revision` affects, with the revision and the changed files. */
export function affectedSince(revision) {
  const base = revision ?? defaultBase();
  const changed = changedFiles(base);
  return { base, changed, ...affected(changed, repositoryGraph()) };
}

/** The dependencies of all files of the repository as they are now. */
export function repositoryGraph() {
  const paths = folders.flatMap((folder) => filesBelow(folder));
  const sources = paths.filter((path) => isSource.test(path));
  const texts = new Map(sources.map((path) => [path, readFileSync(inRepository(path), 'utf8')]));
  return dependencyGraph(
    texts,
    paths.filter((path) => !texts.has(path)),
  );
}

/** Files that differ between the revision and the working tree: committed since, uncommitted, untracked and deleted ones. */
function changedFiles(base) {
  const names = [
    git('diff', '--name-only', '--no-renames', '-z', base, '--'),
    git('ls-files', '--others', '--exclude-standard', '-z'),
  ];
  return names
    .join('')
    .split('\0')
    .filter((name) => name !== '');
}

/** The commit at which the current branch left main; HEAD on main itself. */
function defaultBase() {
  for (const main of ['main', 'origin/main']) {
    try {
      return git('merge-base', main, 'HEAD').trim();
    } catch {
      // there is no such branch
    }
  }
  return 'HEAD';
}

function git(...args) {
  try {
    return execFileSync('git', args, {
      cwd: repositoryRoot,
      encoding: 'utf8',
      maxBuffer: 1 << 26,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } catch (error) {
    throw new Error(`git ${args.join(' ')} failed: ${String(error.stderr ?? error.message).trim()}`);
  }
}
