// A call on its way to the ranks, and how a function or a module becomes one.

import { existsSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { deserialize, serialize } from 'node:v8';
import { Script } from 'node:vm';
import { HorovodError } from '../../errors.ts';

export type Call =
  | { readonly kind: 'function'; readonly expression: string; readonly args: readonly unknown[] }
  /** `path` of a file on every host. */
  | { readonly kind: 'module'; readonly path: string; readonly args: readonly unknown[] };

/** Throws ERR_HVD_INVALID_ARGUMENT for what cannot travel. */
export function encodeCall(target: unknown, args: readonly unknown[]): Buffer {
  if (!Array.isArray(args)) throw wrong(`args is a list of arguments, not ${inspect(args, { depth: 0 })}`);
  const call: Call =
    typeof target === 'function'
      ? { kind: 'function', expression: functionExpression(target), args }
      : { kind: 'module', path: modulePath(target), args };
  try {
    return serialize(call);
  } catch (error) {
    throw wrong(`args cannot be sent to the ranks: ${(error as Error).message}`, error);
  }
}

export function decodeCall(bytes: Buffer): Call {
  return deserialize(bytes) as Call;
}

/** The function's text as an expression. Methods are written without `function`, and need an object around them. */
export function functionExpression(fn: unknown): string {
  const text = Function.prototype.toString.call(fn);
  if (/\{\s*\[native code\]\s*\}$/.test(text)) {
    throw wrong('the function has no text (it is built in, or made by bind()); write one that calls it');
  }
  if (/^class\b/.test(text)) throw wrong('a class cannot be called; give a function');
  const candidates = [`(${text})`, `(Object.values({ ${text} })[0])`];
  const expression = candidates.find(isScript);
  if (expression === undefined) {
    throw wrong(`the text of the function does not stand by itself: ${text.slice(0, 60)}…`);
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
    throw wrong(`a function or the path of a module is wanted, not ${inspect(target, { depth: 0 })}`);
  }
  const text = String(target);
  const path = text.startsWith('file:') ? fileURLToPath(text) : text;
  const absolute = isAbsolute(path) ? path : resolve(path);
  if (!existsSync(absolute)) throw wrong(`there is no module ${absolute}`);
  return absolute;
}

function wrong(message: string, cause?: unknown): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `run: ${message}.`, { cause });
}
