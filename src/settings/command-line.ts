// The command line of horovodrun: flags, then the command. It is read in two passes: the first finds where the command
// starts (the first word that is not a flag), the second parses the flags before it strictly. Nothing is started here.

import { parseArgs } from 'node:util';
import { HorovodError } from '../errors.ts';
import { readConfigFile } from './config-file.ts';
import { type ForeignFlag, foreignFlags } from './foreign-flags.ts';
import { nearest } from './nearest.ts';
import { parseSetting, readSettings } from './read-settings.ts';
import { settingError } from './setting.ts';
import { elasticOnly, isElastic } from './table/elastic.ts';
import {
  cannotEncrypt,
  type Flag,
  type LaunchOptions,
  launchTable,
  type Setting,
  type Settings,
  settingsTable,
  type TableSettings,
} from './table.ts';

export interface CommandLine {
  readonly options: LaunchOptions;
  readonly command: readonly string[];
  /** Variables that the flags and the config file set for the ranks. */
  readonly environment: Readonly<Record<string, string>>;
  /** What the ranks will read, except for their identity. The launcher uses them too. */
  readonly settings: Settings;
  /** One-line notices about what has no effect. */
  readonly notices: readonly string[];
}

type Owner =
  | {
      readonly kind: 'launch' | 'worker';
      readonly key: string;
      readonly setting: Setting<unknown>;
      readonly flag: Flag;
    }
  | { readonly kind: 'foreign'; readonly foreign: ForeignFlag };

/** Throws ERR_HVD_SETTING for wrong values and ERR_HVD_UNSUPPORTED for flags that are not supported. */
export function parseCommandLine(argv: readonly string[], env: NodeJS.ProcessEnv): CommandLine {
  const owners = flagOwners();
  const { flags, command, isMarked } = splitCommand(joinPairs(argv, owners), owners);
  const launchTexts = new Map<string, string>();
  const workerTexts = new Map<string, string>();
  const notices: string[] = [];
  for (const { name, value } of readFlags(flags, owners)) {
    const owner = owners.get(name) as Owner;
    if (owner.kind === 'foreign') {
      notices.push(...handleForeign(name, owner.foreign));
      continue;
    }
    const texts = owner.kind === 'launch' ? launchTexts : workerTexts;
    const text = textOf(owner.flag, owner.setting, name, value);
    const earlier = texts.get(owner.key);
    if (!('operand' in owner.flag) && earlier !== undefined && earlier !== text) {
      throw settingError(`${name} conflicts with another flag on this command line.`);
    }
    const joint = 'joinedWith' in owner.flag ? owner.flag.joinedWith : undefined;
    texts.set(owner.key, joint === undefined || earlier === undefined ? text : `${earlier}${joint}${text}`);
  }
  const options = launchOptions(launchTexts);
  if (options.hosts !== undefined && options.hostfile !== undefined) {
    throw settingError('-H and --hostfile cannot be used together.');
  }
  const environment: Record<string, string> = {};
  if (options.configFile !== undefined) {
    const config = readConfigFile(options.configFile);
    Object.assign(environment, config.environment);
    notices.push(...config.notices);
  }
  for (const [key, text] of workerTexts) {
    environment[settingsTable[key as keyof TableSettings].env as string] = text;
  }
  notices.push(...noticesAboutEnvironment(env));
  // Whoever writes `--` before the command knows where our flags end.
  if (!isMarked) notices.push(...noticesAboutCommand(command, owners));
  const settings = driverSettings(env, environment);
  // Not those of the config file: other jobs may share it.
  const useless = elasticOnly.find((key) => workerTexts.has(key));
  if (useless !== undefined && !isElastic(settings)) {
    const name = settingsTable[useless].flags?.[0]?.names[0];
    throw settingError(`${name} is for elastic jobs. Add --min-np or --host-discovery-script, or remove it.`);
  }
  return { options, command, environment, settings, notices };
}

/** Each name of each flag, with the setting it belongs to. */
function flagOwners(): Map<string, Owner> {
  const owners = new Map<string, Owner>();
  for (const [kind, table] of [
    ['launch', launchTable],
    ['worker', settingsTable],
  ] as const) {
    for (const [key, setting] of Object.entries(table) as [string, Setting<unknown>][]) {
      for (const flag of setting.flags ?? []) {
        for (const name of flag.names) owners.set(name, { kind, key, setting, flag });
      }
    }
  }
  for (const foreign of foreignFlags) {
    for (const name of foreign.names) owners.set(name, { kind: 'foreign', foreign });
  }
  return owners;
}

function takesValue(owner: Owner): boolean {
  return owner.kind === 'foreign' ? owner.foreign.takesValue : 'operand' in owner.flag;
}

/**
 * Node's parser knows only `-x` and `--word`, but Horovod also has flags such as `-np`. They are parsed as `--np`.
 */
function rewrite(argument: string, owners: ReadonlyMap<string, Owner>): string {
  const owner = owners.get(argument);
  if (owner !== undefined && owner.kind !== 'foreign' && 'bare' in owner.flag)
    return `${argument}=${owner.flag.bare}`;
  const name = argument.split('=', 1)[0] as string;
  return /^-\w[\w-]/.test(name) && owners.has(name) ? `-${argument}` : argument;
}

function parserOptions(
  owners: ReadonlyMap<string, Owner>,
): NonNullable<Parameters<typeof parseArgs>[0]>['options'] {
  const options: Record<string, { type: 'string' | 'boolean'; multiple: true; short?: string }> = {};
  for (const [name, owner] of owners) {
    const type = takesValue(owner) ? 'string' : 'boolean';
    // A one-letter flag needs a long name, too; nobody types this one.
    if (/^-\w$/.test(name)) options[`short${name}`] = { type, multiple: true, short: name.slice(1) };
    else options[name.replace(/^-+/, '')] = { type, multiple: true };
  }
  return options;
}

/** A flag with two values becomes one word: `--cooldown-range=1 60`. Its second value would be taken for the command. */
function joinPairs(argv: readonly string[], owners: ReadonlyMap<string, Owner>): readonly string[] {
  const args = argv.map((argument) => rewrite(argument, owners));
  const { tokens } = parseArgs({ args, options: parserOptions(owners) ?? {}, strict: false, tokens: true });
  const at = tokens.findIndex((token) => token.kind !== 'option');
  const [flag, second] = [tokens[at - 1], tokens[at]];
  if (flag?.kind !== 'option' || flag.inlineValue !== false || second?.kind !== 'positional') return argv;
  const owner = owners.get(flag.rawName);
  const isPair = owner?.kind !== 'foreign' && owner?.flag !== undefined && 'isPair' in owner.flag;
  if (!isPair) return argv;
  const joined = `${flag.rawName}=${flag.value} ${second.value}`;
  return joinPairs([...argv.slice(0, flag.index), joined, ...argv.slice(second.index + 1)], owners);
}

function splitCommand(
  argv: readonly string[],
  owners: ReadonlyMap<string, Owner>,
): { flags: string[]; command: string[]; isMarked: boolean } {
  const args = argv.map((argument) => rewrite(argument, owners));
  const { tokens } = parseArgs({ args, options: parserOptions(owners) ?? {}, strict: false, tokens: true });
  const start = tokens.find((token) => token.kind !== 'option');
  if (start === undefined) return { flags: args, command: [], isMarked: false };
  const isMarked = start.kind === 'option-terminator';
  const command = argv.slice(isMarked ? start.index + 1 : start.index);
  return { flags: args.slice(0, start.index), command, isMarked };
}

function readFlags(
  args: string[],
  owners: ReadonlyMap<string, Owner>,
): { name: string; value: string | undefined }[] {
  const byLongName = new Map([...owners.keys()].map((name) => [name.replace(/^-+/, ''), name]));
  try {
    const { tokens } = parseArgs({ args, options: parserOptions(owners) ?? {}, tokens: true });
    return tokens.flatMap((token) => {
      if (token.kind !== 'option') return [];
      const name = token.name.startsWith('short-') ? token.name.slice(5) : byLongName.get(token.name);
      return [{ name: name as string, value: token.value }];
    });
  } catch (error) {
    throw explainParserError(error as NodeJS.ErrnoException, owners);
  }
}

function explainParserError(error: NodeJS.ErrnoException, owners: ReadonlyMap<string, Owner>): Error {
  const name = /'(?:-\w, )?(-[^ '=]*)/.exec(error.message)?.[1] ?? '';
  if (error.code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const near = nearest(name, [...owners.keys()]);
    return settingError(`unknown flag ${name}.${near === undefined ? '' : ` Did you mean ${near}?`}`);
  }
  if (error.code === 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') {
    const shown = name.startsWith('--short-') ? name.slice(7) : name;
    return /does not take an argument/.test(error.message)
      ? settingError(`${shown} takes no value.`)
      : settingError(`${shown} needs a value (write ${shown}=-x if it starts with a dash).`);
  }
  return error;
}

function textOf(flag: Flag, setting: Setting<unknown>, name: string, value: string | undefined): string {
  if (!('operand' in flag)) return flag.text;
  const text = value ?? '';
  parseSetting({ kind: (flag.kind ?? setting.kind) as Setting<unknown>['kind'] }, text, name);
  return flag.toText?.(text) ?? text;
}

function handleForeign(name: string, foreign: ForeignFlag): string[] {
  if (foreign.treatment === 'without effect') return [`${name} has no effect: ${foreign.reason}.`];
  throw new HorovodError('ERR_HVD_UNSUPPORTED', `${name}: ${foreign.reason}.`);
}

/** The options for these texts; those without a text have their default. */
export function launchOptions(texts: ReadonlyMap<string, string>): LaunchOptions {
  const entries = (Object.entries(launchTable) as [string, Setting<unknown>][]).map(([key, setting]) => {
    const text = texts.get(key);
    return [key, text === undefined ? setting.default : setting.kind.parse(text)];
  });
  return Object.fromEntries(entries) as LaunchOptions;
}

/**
 * What ranks with these variables on top of the launcher's would read, except for their identity. Reading them here also
 * reports a wrong variable once instead of once per rank.
 */
export function driverSettings(
  env: NodeJS.ProcessEnv,
  environment: Readonly<Record<string, string>>,
): Settings {
  const merged: NodeJS.ProcessEnv = { ...env, ...environment };
  // In a job within a job, the outer job's variables about this process do not apply to the inner one.
  for (const setting of Object.values(settingsTable))
    if (setting.isGiven) delete merged[setting.env as string];
  const settings = readSettings({ ...merged, HOROVOD_RANK: '0', HOROVOD_SIZE: '1' });
  const { encrypt, transport } = settings;
  if (encrypt && (transport === 'mpi' || transport === 'gloo')) throw cannotEncrypt(transport);
  return settings;
}

function noticesAboutEnvironment(env: NodeJS.ProcessEnv): string[] {
  return foreignFlags.flatMap((foreign) => {
    const text = foreign.env === undefined ? undefined : env[foreign.env];
    if (text === undefined || text === '' || text === '0') return [];
    return [`${foreign.env} has no effect: ${foreign.reason}.`];
  });
}

/** Flags that many programs have. */
const commonFlags: ReadonlySet<string> = new Set(['--help', '--version', '--verbose']);

/** Flags of ours among the arguments of the command: it gets them, and they have no effect on the job. */
function noticesAboutCommand(
  [program = '', ...args]: readonly string[],
  owners: ReadonlyMap<string, Owner>,
): string[] {
  const end = args.indexOf('--');
  const names = args.slice(0, end < 0 ? undefined : end).map((word) => word.split('=', 1)[0] as string);
  const ours = names.filter((name) => owners.has(name) && !/^-\w$/.test(name) && !commonFlags.has(name));
  return [...new Set(ours)].map(
    (name) =>
      `${name} stands after the command, so ${program} gets it and horovodrun does not. Put it before ${program}; if it is meant ` +
      `for ${program}, write -- before ${program}.`,
  );
}
