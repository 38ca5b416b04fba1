// The command line of an example: its options, its help, and checks. A mistake ends the script with one sentence and
// code 2; help is written by one rank.

import { type ParseArgsConfig, parseArgs } from 'node:util';

type Options = NonNullable<ParseArgsConfig['options']>;
type Values<O extends Options> = ReturnType<typeof parseArgs<{ options: O }>>['values'];

/** What stands on the command line; with `--help`, shows `usage` and ends the script. */
export function readOptions<const O extends Options>(usage: string, options: O): Values<O> {
  try {
    const known = { ...options, help: { type: 'boolean', default: false } } as const;
    const { values } = parseArgs({ options: known });
    if (!(values as { help?: boolean }).help) return values as unknown as Values<O>;
  } catch (error) {
    refuse(`${error instanceof Error ? error.message : String(error)}. --help shows the options.`);
  }
  if ((process.env['HOROVOD_RANK'] ?? '0') === '0') console.log(usage);
  process.exit(0);
}

/** The number after a flag such as `--epochs`. */
export function wholeNumber(flag: string, text: string, least = 1): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isInteger(value) && value >= least) return value;
  return refuse(`${flag} ${text}: expected a whole number, at least ${least}`);
}

/** The word after a flag, one of those allowed. */
export function oneOf<Word extends string>(flag: string, text: string, allowed: readonly Word[]): Word {
  return allowed.find((word) => word === text) ?? refuse(`${flag} ${text}: expected ${allowed.join(', ')}`);
}

export const backends = ['auto', 'tensorflow', 'wasm', 'cpu'] as const;

function refuse(sentence: string): never {
  console.error(sentence);
  process.exit(2);
}
