// What a subcommand of `horovod` is; subcommands.ts has the list.

import { type ParseArgsConfig, parseArgs } from 'node:util';
import { settingError } from '../settings/setting.ts';

export interface CommandOutput {
  /** Writes text as it is, without adding a newline. */
  out(text: string): void;
  error(text: string): void;
}

export interface Subcommand {
  readonly name: string;
  /** One line for `horovod --help`. */
  readonly about: string;
  /** Resolves to the exit code: 0, 1 (there is nothing to show, or it failed) or 2 (wrong usage). */
  run(argv: readonly string[], output: CommandOutput): Promise<number>;
}

type Parsed<T extends NonNullable<ParseArgsConfig['options']>> = ReturnType<
  typeof parseArgs<{ args: string[]; allowPositionals: true; options: T }>
>;

/** parseArgs() of Node; wrong options are usage errors. */
export function parseOptions<T extends NonNullable<ParseArgsConfig['options']>>(
  argv: readonly string[],
  options: T,
): Parsed<T> {
  try {
    return parseArgs({ args: [...argv], allowPositionals: true, options });
  } catch (error) {
    throw settingError(`${(error as Error).message.split('. ')[0]}.`);
  }
}
