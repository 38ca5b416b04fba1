// What launch() is asked to run: a notebook or a script of this machine. Mistakes are found before anything starts.

import { existsSync, mkdtempSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, isAbsolute, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { HorovodError } from '../../errors.ts';
import { isLocal } from '../../files/location.ts';
import type { SentProgram } from '../agent/protocol.ts';
import { isScriptName } from '../command.ts';
import type { Notebook } from './cells/notebook.ts';
import { checkedNotebook } from './check-notebook.ts';

/** A notebook with large outputs. An order holds 16 MiB, as base64. */
const maxProgramBytes = 10 * 2 ** 20;

export interface Program {
  /** `train.ipynb` */
  readonly name: string;
  /** For the ranks. */
  readonly path: string;
  readonly notebook: Notebook | undefined;
  /** What of it does not run; undefined: everything runs. */
  readonly skipped: string | undefined;
  /** As text, for HOROVOD_NOTEBOOK_PARAMETERS. */
  readonly parameters: string | undefined;
}

/** Where a program that was on a server is now, and what goes to the ranks. */
export interface FetchedProgram {
  readonly path: string;
  readonly sent: SentProgram;
}

/** A program on a server is read, and goes to the places of the ranks; otherwise undefined. Remove the folder of `path` afterwards. */
export async function fetchProgram(given: unknown, signal: AbortSignal): Promise<FetchedProgram | undefined> {
  if (typeof given !== 'string' || isLocal(given)) return undefined;
  const [{ defaultFiles }, { readFile }] = await Promise.all([
    import('../../context/default/default-files.ts'),
    import('../../files/read-file.ts'),
  ]);
  const content = await readFile(defaultFiles(), given, { signal, maxBytes: maxProgramBytes });
  const name = basename(given.replace(/[?#].*$/, ''));
  const path = join(mkdtempSync(join(tmpdir(), 'horovod-program-')), name);
  writeFileSync(path, content);
  return { path, sent: { name, base64: Buffer.from(content).toString('base64') } };
}

/** Throws ERR_HVD_INVALID_ARGUMENT, and ERR_HVD_NOTEBOOK for mistakes in the notebook. */
export function checkProgram(
  given: unknown,
  parameters: Readonly<Record<string, unknown>> | undefined,
): Program {
  const path = pathOf(given);
  const name = basename(path);
  const texts = parameterTexts(parameters);
  if (!/\.ipynb$/i.test(path)) {
    if (!isScriptName(path))
      throw wrong(`${path} is neither a notebook (.ipynb) nor a script (.ts, .mts, .cts, .js, .mjs, .cjs)`);
    if (texts.size > 0) throw wrong(`parameters need a notebook, and ${name} is a script`);
    return { name, path, notebook: undefined, skipped: undefined, parameters: undefined };
  }
  const { notebook, skipped } = checkedNotebook(path, texts);
  const lines = [...texts].map(([parameter, text]) => `${parameter}=${text}`);
  return { name, path, notebook, skipped, parameters: lines.length === 0 ? undefined : lines.join('\n') };
}

/** Relative if below the working directory, because another host may have the project elsewhere. */
function pathOf(given: unknown): string {
  if (!(typeof given === 'string' || given instanceof URL))
    throw wrong(`expected the path of a notebook, not ${inspect(given, { depth: 0 })}`);
  const text = String(given);
  if (!isLocal(text))
    throw wrong(
      `${text} is on a server; expected a notebook of this machine. Copy it here first, or run it on Spark`,
    );
  const path = resolve(text.startsWith('file:') ? fileURLToPath(text) : text);
  if (!existsSync(path)) throw wrong(`there is no ${path}${isAbsolute(text) ? '' : ` (${text})`}`);
  if (!statSync(path).isFile()) throw wrong(`${path} is a folder; expected a notebook`);
  const inside = relative(process.cwd(), path);
  return inside.startsWith('..') ? path : `./${inside}`;
}

function parameterTexts(parameters: Readonly<Record<string, unknown>> = {}): Map<string, string> {
  if (typeof parameters !== 'object' || parameters === null || Array.isArray(parameters))
    throw wrong(`parameters must be an object such as { lr: 0.1 }, not ${inspect(parameters, { depth: 0 })}`);
  return new Map(
    Object.entries(parameters).map(([name, value]) => {
      requireJson(value, `the parameter ${name}`);
      return [name, JSON.stringify(value)];
    }),
  );
}

/** Parameters become text in the notebook: what JSON does not have would silently become something else. */
function requireJson(value: unknown, what: string): void {
  if (value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value))
    return;
  if (Array.isArray(value)) {
    for (const [index, each] of value.entries()) requireJson(each, `${what}[${index}]`);
    return;
  }
  if (typeof value === 'object' && [Object.prototype, null].includes(Object.getPrototypeOf(value))) {
    for (const [name, each] of Object.entries(value as object)) requireJson(each, `${what}.${name}`);
    return;
  }
  throw wrong(
    `${what} is ${inspect(value, { depth: 0 })}; expected a number, a text, true, false, null, or lists and objects of these`,
  );
}

function wrong(message: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `launch: ${message}.`);
}
