// A pipeline on its way to compute workers. It is the plan, as JSON; modules are named by their path below the project, and workers
// load them from the folder that their job allows (--modules), if they are the same to the byte. So a training job can make workers
// run code that is there already, and nothing else.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { HorovodError } from '../../errors.ts';
import { isLocal, pathOf } from '../../files/location.ts';
import { isReference } from '../plan/function-reference.ts';
import type { PlanNode, SourceNode } from '../plan/nodes.ts';

export interface JobPlan {
  /** Modules in it are paths below the project, with '/'. */
  readonly nodes: readonly PlanNode[];
  /** SHA-256 of each module file and of the files it imports by relative paths, by path below the project. */
  readonly modules: Readonly<Record<string, string>>;
  /** The folder of the project in the trainer, for errors. */
  readonly project: string;
  /** Mixed into the seed of the plan; 0: nothing. */
  readonly seed: number;
}

/** The trainer's side. `nodes`: the calls before sendToDataService(). */
export function jobPlanOf(nodes: readonly PlanNode[], seed: number): JobPlan {
  const modules: Record<string, string> = {};
  let project: string | undefined;
  const named = (url: string): string => {
    const path = modulePath(url);
    project ??= projectOf(path);
    const name = nameBelow(project, path);
    if (name === undefined)
      throw refused(`the module ${path} is not below ${project}, the project of the first module`);
    for (const [file, digest] of digestsOf(path, project)) modules[file] = digest;
    return name;
  };
  const sent = nodes
    .filter(({ node }) => node !== 'repeat' && node !== 'prefetch')
    .map((node) => withModules(node, named, localPaths));
  return { nodes: sent, modules, project: project ?? '', seed };
}

/** Throws for calls that compute workers cannot do. `call`: 'sendToDataService()'. */
export function checkForService(nodes: readonly PlanNode[], call: string): void {
  for (const node of nodes) checkNode(node, nodes, call);
}

/**
 * The worker's side: the plan with URLs of modules of this machine. `folder`: --modules. It is the project, or a folder of the project;
 * nothing outside of it is loaded.
 */
export function loadablePlan({ nodes, modules, project }: JobPlan, folder: string): readonly PlanNode[] {
  const root = realpathSync(folder);
  const base = baseOf(root, Object.keys(modules));
  const resolved = (name: string): string => {
    if (!isPathBelow(name))
      throw refused(`the plan names the module ${JSON.stringify(name)}, which is not a path below a project`);
    const path = join(base, name);
    if (!existsSync(path))
      throw refused(
        `this compute worker has no ${path}, which the training job has as ${join(project, name)}. Start the compute job in the same project, or name its folder with --modules`,
      );
    const real = realpathSync(path);
    if (nameBelow(root, real) === undefined)
      throw refused(
        `${path} leads out of ${root}, the folder of --modules. If compute workers may load it, start the compute job with --modules and a folder above`,
      );
    return real;
  };
  for (const [name, digest] of Object.entries(modules)) {
    const path = resolved(name);
    if (digestOf(path) !== digest)
      throw refused(
        `${path} on this compute worker is not the same file as ${join(project, name)} of the training job. Bring both to the same version, then start the compute job again`,
      );
  }
  const known = new Set(Object.keys(modules));
  const urlOf = (name: string): string => {
    if (!known.has(name)) throw refused(`the plan names the module ${name} and has no digest of it`);
    const path = resolved(name);
    for (const file of importedBy(path, base))
      if (!known.has(file))
        throw refused(`${join(base, file)} is imported by ${name}, and the plan has no digest of it`);
    return pathToFileURL(path).href;
  };
  return nodes.map((node) => withModules(node, urlOf, (path) => path));
}

/** The first call in which two plans differ; undefined: in none. */
export function firstDifference(a: JobPlan, b: JobPlan): string | undefined {
  for (let place = 0; place < Math.max(a.nodes.length, b.nodes.length); place += 1) {
    const [one, other] = [a.nodes[place], b.nodes[place]];
    if (JSON.stringify(one) === JSON.stringify(other)) continue;
    const [name, theirs] = [one, other].map((node) => (node === undefined ? 'nothing' : `${node.node}()`));
    return `call ${place + 1} of the pipeline is ${theirs}${name === theirs ? ' with other arguments' : ''} and was ${name}`;
  }
  const file = Object.keys(a.modules).find((name) => a.modules[name] !== b.modules[name]);
  return file === undefined ? undefined : `the module ${file} is another file`;
}

function checkNode(node: PlanNode, nodes: readonly PlanNode[], call: string): void {
  const batchAt = nodes.findIndex(({ node: name }) => /batch|bucket/i.test(name));
  const isBehindBatch = batchAt >= 0 && nodes.indexOf(node) > batchAt;
  const repeatAt = nodes.findIndex(({ node: name }) => name === 'repeat');
  if (node.node === 'arrayDataset')
    throw refused(
      'arrayDataset() is in the memory of this process, where compute workers cannot read it. Write its rows to files (npyDataset(), writeTfRecords())',
    );
  if ('fn' in node && !isReference(node.fn)) {
    const name = node.fn.name || 'fn';
    throw refused(
      `${node.node}(${name}) has a function that exists in this process only. Put it into a module of its own and write ${node.node}(exported(new URL('./module.ts', import.meta.url), '${name}')), or call ${node.node}() after ${call}`,
    );
  }
  if (isBehindBatch && (node.node === 'filter' || node.node === 'take' || node.node === 'skip'))
    throw refused(
      `${node.node}() follows batch(): call it before batch()${node.node === 'skip' ? '' : `, or after ${call}`}`,
    );
  if (node.node === 'take' && repeatAt >= 0 && nodes.indexOf(node) > repeatAt)
    throw refused(`take() follows repeat(): call it after ${call}`);
}

function withModules(
  node: PlanNode,
  named: (module: string) => string,
  localised: (path: string) => string,
): PlanNode {
  if ('fn' in node && isReference(node.fn))
    return { ...node, fn: { ...node.fn, module: named(node.fn.module) } };
  if (!('settings' in node)) return node;
  const { module } = node.format;
  return {
    ...node,
    paths: node.paths.map(localised),
    format: typeof module === 'string' ? { ...node.format, module: named(module) } : node.format,
    settings: { ...node.settings, shard: 'lanes', rank: null, size: null },
  } satisfies SourceNode;
}

/** Workers run in other folders. */
function localPaths(path: string): string {
  return isLocal(path) ? resolve(pathOf(path)) : path;
}

function modulePath(url: string): string {
  if (!url.startsWith('file:'))
    throw refused(`the module ${url} is no file, and compute workers load modules from files only`);
  const path = fileURLToPath(url);
  if (!existsSync(path)) throw refused(`there is no module ${path}, which a call of the pipeline names`);
  return realpathSync(path);
}

/** The folder of the nearest package.json, else that of the process. */
function projectOf(path: string): string {
  return nearestProject(dirname(path)) ?? process.cwd();
}

function nearestProject(from: string): string | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder;
    if (folder === dirname(folder)) return undefined;
  }
}

/** What names of modules begin at: the folder of --modules, or the project that it is a folder of, if they are there. */
function baseOf(root: string, names: readonly string[]): string {
  const areIn = (base: string) => names.every((name) => isPathBelow(name) && existsSync(join(base, name)));
  if (areIn(root)) return root;
  const project = nearestProject(root);
  return project !== undefined && areIn(project) ? project : root;
}

function isPathBelow(name: string): boolean {
  const isPath = name !== '' && !isAbsolute(name) && !name.includes('\\') && !name.includes('\0');
  return isPath && !name.split('/').some((part) => part === '..' || part === 'node_modules');
}

function nameBelow(root: string, path: string): string | undefined {
  const name = relative(root, path);
  if (name === '' || name.startsWith('..') || isAbsolute(name)) return undefined;
  const parts = name.split(sep);
  return parts.includes('node_modules') ? undefined : parts.join('/');
}

function digestOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

function digestsOf(path: string, root: string): Map<string, string> {
  const own = nameBelow(root, path) as string;
  return new Map(
    [own, ...importedBy(path, root)].map((name) => [name, digestOf(join(root, ...name.split('/')))]),
  );
}

const importPattern = /(?:\bfrom|\bimport)\s*\(?\s*(['"])(\.{1,2}\/[^'"\n]+)\1/g;

/** The files that a module imports by relative paths, and those that these import. */
function importedBy(path: string, root: string): Set<string> {
  const found = new Set<string>();
  const visit = (file: string) => {
    for (const [, , specifier] of readFileSync(file, 'utf8').matchAll(importPattern)) {
      const target = join(dirname(file), specifier as string);
      if (!existsSync(target)) continue;
      const real = realpathSync(target);
      const name = nameBelow(root, real);
      if (name === undefined) throw refused(`${file} imports ${specifier}, which is not below ${root}`);
      if (found.has(name) || real === path) continue;
      found.add(name);
      visit(real);
    }
  };
  visit(path);
  return found;
}

function refused(reason: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `data service: ${reason}.`);
}
