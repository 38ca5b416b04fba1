// The call that run() sends to the ranks, made from a function or the path of a module.

import { existsSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { deserialize, serialize } from 'node:v8';
import { Script } from 'node:vm';
import { HorovodError } from '../../errors.ts';

/** What is called. */
export type Callee =
  | { readonly kind: 'function'; readonly expression: string }
  /** `path` of a file on every host. */
  | { readonly kind: 'module'; readonly path: string };

export type Call = Callee & { readonly args: readonly unknown[] };

/** Throws ERR_HVD_INVALID_ARGUMENT for values that cannot be sent. */
export function encodeCall(target: unknown, args: readonly unknown[]): Buffer {
  if (!Array.isArray(args)) throw wrong(`args must be an array, not ${inspect(args, { depth: 0 })}`);
  const call: Call = { ...calleeOf(target), args };
  try {
    return serialize(call);
  } catch (error) {
    throw wrong(`args cannot be sent to the ranks: ${(error as Error).message}`, error);
  }
}

/** Throws ERR_HVD_INVALID_ARGUMENT for functions without source text, and modules that do not exist. */
export function calleeOf(target: unknown): Callee {
  return typeof target === 'function'
    ? { kind: 'function', expression: functionExpression(target) }
    : { kind: 'module', path: modulePath(target) };
}

export function decodeCall(bytes: Buffer): Call {
  return deserialize(bytes) as Call;
}

/** The source text of the function as an expression. A method needs an object around it. */
export function functionExpression(fn: unknown): string {
  const text = Function.prototype.toString.call(fn);
  if (/\{\s*\[native code\]\s*\}$/.test(text)) {
    throw wrong(
      'the function has no source text (it is built in, or made by bind()); pass a function that calls it',
    );
  }
  if (/^class\b/.test(text)) throw wrong('a class cannot be called; pass a function');
  const candidates = [`(${text})`, `(Object.values({ ${text} })[0])`];
  const expression = candidates.find(isScript);
  if (expression === undefined) {
    throw wrong(`the source text of the function is not a complete expression: ${text.slice(0, 60)}…`);
  }
  return `'use strict'; ${expression}`;
}

function isScript(text: string): boolean {
  try {
    new Script(text);
    return true;
  } catch {
    return false;
  }
}

function modulePath(target: unknown): string {
  if (!(typeof target === 'string' || target instanceof URL)) {
    throw wrong(`expected a function or the path of a module, not ${inspect(target, { depth: 0 })}`);
  }
  const text = String(target);
  const path = text.startsWith('file:') ? fileURLToPath(text) : text;
  const absolute = isAbsolute(path) ? path : resolve(path);
  if (!existsSync(absolute)) throw wrong(`the module ${absolute} does not exist`);
  return absolute;
}

function wrong(message: string, cause?: unknown): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `run: ${message}.`, { cause });
}
