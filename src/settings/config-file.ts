// The YAML file of --config-file, with Python Horovod's keys, translated into the environment variables they stand for.
// Unknown keys get a notice with their line, because a misspelt key would otherwise be ignored silently.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { LineCounter, Pair } from 'yaml';
import { HorovodError } from '../errors.ts';
import { type ForeignFlag, foreignFlags } from './foreign-flags.ts';
import { settingError } from './setting.ts';
import { type Setting, settingsTable } from './table.ts';

export interface ConfigFile {
  readonly environment: Readonly<Record<string, string>>;
  readonly notices: readonly string[];
}

export function readConfigFile(path: string): ConfigFile {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw settingError(`cannot read the config file ${path}: ${(error as Error).message}.`);
  }
  return parseConfig(text, path);
}

/** Loaded only if there is a file to read, because it takes 20 ms. */
function yaml(): typeof import('yaml') {
  return createRequire(import.meta.url)('yaml') as typeof import('yaml');
}

export function parseConfig(text: string, path: string): ConfigFile {
  const { LineCounter, parseDocument } = yaml();
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const problem = document.errors[0];
  if (problem !== undefined) {
    throw settingError(
      `${path}:${lines.linePos(problem.pos[0]).line} is not valid YAML: ${problem.message.split('\n', 1)[0]}`,
    );
  }
  const environment: Record<string, string> = {};
  const notices: string[] = [];
  for (const leaf of leavesOf(document.contents, path, lines)) {
    if (leaf.value === null) continue;
    const setting = settingOf(leaf.key);
    const foreign = foreignFlags.find(({ yaml }) => yaml === leaf.key);
    if (setting !== undefined) environment[setting.env as string] = settingText(setting, leaf);
    else if (foreign !== undefined) notices.push(...handleForeign(foreign, leaf));
    else notices.push(`${leaf.place}: ${leaf.key} is not a known setting and has no effect.`);
  }
  return { environment, notices };
}

interface Leaf {
  readonly key: string;
  readonly value: unknown;
  /** file:line */
  readonly place: string;
}

function leavesOf(contents: unknown, path: string, lines: LineCounter): Leaf[] {
  const { isMap, isScalar } = yaml();
  if (contents === null || (isScalar(contents) && contents.value === null)) return [];
  if (!isMap(contents))
    throw settingError(`${path} must be a map of sections (params, stall_check, logging, …).`);
  return contents.items.flatMap((pair) => {
    if (!isMap(pair.value)) return [leaf('', pair, path, lines)];
    return pair.value.items.map((inner) => leaf(`${String(pair.key)}.`, inner, path, lines));
  });
}

function leaf(section: string, pair: Pair, path: string, lines: LineCounter): Leaf {
  const { isScalar } = yaml();
  const offset = isScalar(pair.key) ? (pair.key.range?.[0] ?? 0) : 0;
  const value = pair.value === null ? null : isScalar(pair.value) ? pair.value.value : String(pair.value);
  return { key: `${section}${String(pair.key)}`, value, place: `${path}:${lines.linePos(offset).line}` };
}

function settingOf(key: string): Setting<unknown> | undefined {
  return Object.values(settingsTable as Record<string, Setting<unknown>>).find(
    ({ yaml }) => yaml?.key === key,
  );
}

function settingText(setting: Setting<unknown>, { key, value, place }: Leaf): string {
  const text = setting.yaml?.toText?.(String(value)) ?? String(value);
  const kind = setting.yaml?.kind ?? setting.kind;
  if (kind.parse(text) === undefined) {
    throw settingError(`${place}: ${key} is ${JSON.stringify(value)}; expected ${kind.accepts}.`);
  }
  return text;
}

function handleForeign(foreign: ForeignFlag, { key, value, place }: Leaf): string[] {
  if (value === false) return [];
  if (foreign.treatment === 'rejected') {
    throw new HorovodError('ERR_HVD_UNSUPPORTED', `${place}: ${key}: ${foreign.reason}.`);
  }
  return [`${place}: ${key} has no effect: ${foreign.reason}.`];
}
