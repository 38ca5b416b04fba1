// References to functions: `exported(module, fn)` names an export of a module, so that threads and compute workers can load it
// themselves. No closure and no code ever travels; see docs/decisions/0028-plans-instead-of-closures.md.

import { realpathSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { HorovodError } from '../../errors.ts';
import { invalid } from '../../operations/check-options.ts';
import { describe } from '../../tensor/tensor.ts';

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [name: string]: Json | undefined };

/** Names an exported function; made by exported(). */
export interface FunctionReference {
  readonly kind: 'exported';
  /** URL of the module. */
  readonly module: string;
  readonly name: string;
  /** Given to the function with each call. */
  readonly args: Json;
}

/** What a function of a pipeline gets beside the element. */
export interface ElementContext<A = Json> {
  /** Numbers from 0 up to 1 that depend on seed, epoch and position alone: the same whoever executes the function. */
  readonly random: () => number;
  readonly epoch: number;
  /** Place in the epoch; of a batch: the place of its first sample. */
  readonly position: number;
  /** Those of exported(); null for other functions. */
  readonly args: A;
}

export type ElementFunction<T = unknown, R = unknown> = (
  element: T,
  context: ElementContext<never>,
) => R | Promise<R>;

/**
 * A function that threads and compute workers can load: export `fn` of `module`. `fn` is its name, or the function itself if it
 * has the name under which it is exported. `args` are passed along with each call.
 */
export function exported(
  module: URL | string,
  // biome-ignore lint/suspicious/noExplicitAny: a function of any kind of elements
  fn: ((...args: any[]) => unknown) | string,
  args: Json = null,
): FunctionReference {
  const what = 'exported()';
  const name = typeof fn === 'function' ? fn.name : fn;
  if (typeof name !== 'string' || name === '') {
    throw invalid(what, `fn is the name of an export, or a function that has it, not ${describe(fn)}`);
  }
  const url = moduleUrl(module, what);
  if (isMainScript(url)) {
    throw invalid(
      what,
      `${url} is the script that was started: a thread that imports it would start training again. Move ${name} into a file of its own`,
    );
  }
  try {
    JSON.stringify(args);
  } catch (cause) {
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${what}: args cannot be written as JSON.`, { cause });
  }
  return { kind: 'exported', module: url, name, args };
}

export function isReference(fn: unknown): fn is FunctionReference {
  return typeof fn === 'object' && fn !== null && (fn as FunctionReference).kind === 'exported';
}

/** A module as a URL. */
export function moduleUrl(module: URL | string, what: string): string {
  if (module instanceof URL) return module.href;
  if (typeof module === 'string') {
    if (/^[a-z]{2,}:/.test(module)) return module;
    if (isAbsolute(module)) return pathToFileURL(module).href;
  }
  throw invalid(
    what,
    `module is new URL('./file.ts', import.meta.url) or an absolute path, not ${describe(module)}`,
  );
}

/** Loads the function. */
export async function loadReference({ module, name }: FunctionReference): Promise<ElementFunction> {
  let exports: Record<string, unknown>;
  try {
    exports = (await import(module)) as Record<string, unknown>;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new HorovodError(
      'ERR_HVD_DATA_FUNCTION',
      `${describeReference({ module, name })}: the module cannot be imported: ${reason}${loaderAdvice(cause)}`,
      { cause },
    );
  }
  const fn = exports[name];
  if (typeof fn === 'function') return fn as ElementFunction;
  const found = Object.keys(exports);
  throw new HorovodError(
    'ERR_HVD_DATA_FUNCTION',
    `${describeReference({ module, name })}: the module has no function of this name, only ${found.join(', ') || 'nothing'}. Export it.`,
  );
}

/** Processes that horovodrun starts load TypeScript; others are told to. */
function loaderAdvice(cause: unknown): string {
  const { code } = Object(cause) as { code?: unknown };
  if (code !== 'ERR_UNKNOWN_FILE_EXTENSION') return '';
  return '. To load TypeScript in a process that horovodrun has not started, set NODE_OPTIONS="--import horovod/typescript"';
}

export function describeReference({ module, name }: Pick<FunctionReference, 'module' | 'name'>): string {
  return `${name} of ${module.startsWith('file:') ? fileURLToPath(module) : module}`;
}

function isMainScript(url: string): boolean {
  const main = process.argv[1];
  if (main === undefined || !url.startsWith('file:')) return false;
  try {
    return realpathSync(fileURLToPath(url)) === realpathSync(main);
  } catch {
    return false;
  }
}
