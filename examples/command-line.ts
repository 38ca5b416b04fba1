// Command-line options for the examples. Invalid options print one message and exit with code 2. Only rank 0 prints the
// help.

import { type ParseArgsConfig, parseArgs } from 'node:util';

type Options = NonNullable<ParseArgsConfig['options']>;
type Values<O extends Options> = ReturnType<typeof parseArgs<{ options: O }>>['values'];

/** Parses the command line. With `--help`, prints `usage` and exits. */
export function readOptions<const O extends Options>(usage: string, options: O): Values<O> {
  return readCommand(usage, options, []).options;
}

/** The same for a script that also takes operands, such as the path of a file. All of them are required. */
export function readCommand<const O extends Options>(
  usage: string,
  options: O,
  names: readonly string[],
): { options: Values<O>; operands: string[] } {
  const known = { ...options, help: { type: 'boolean', default: false } } as const;
  try {
    const { values, positionals } = parseArgs({ options: known, allowPositionals: names.length > 0 });
    if ((values as { help?: boolean }).help) {
      if ((process.env['HOROVOD_RANK'] ?? '0') === '0') console.log(usage);
      process.exit(0);
    }
    if (positionals.length !== names.length) throw new Error(`Expected ${names.join(' ')}`);
    return { options: values as unknown as Values<O>, operands: positionals };
  } catch (error) {
    return fail(
      `${error instanceof Error ? error.message : String(error)}. Run with --help to see the options.`,
    );
  }
}

/** Checks the value of a flag such as `--epochs`. */
export function wholeNumber(flag: string, text: string, minimum = 1): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isInteger(value) && value >= minimum) return value;
  return fail(`${flag} ${text}: expected a whole number, at least ${minimum}`);
}

/** Checks that the value of a flag is one of the allowed words. */
export function oneOf<Word extends string>(flag: string, text: string, allowed: readonly Word[]): Word {
  return (
    allowed.find((word) => word === text) ?? fail(`${flag} ${text}: expected one of ${allowed.join(', ')}`)
  );
}

export const backends = ['auto', 'tensorflow', 'wasm', 'cpu'] as const;

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}
