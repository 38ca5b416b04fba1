// The command `horovod`: runs a subcommand and ends the process with its exit code.

import { fileURLToPath } from 'node:url';
import { HorovodError } from '../errors.ts';
import { ConsoleWriter, ownOutput } from '../launch/output/console-writer.ts';
import { typedCommand } from '../settings/command-name.ts';
import { packageVersion } from '../settings/package.ts';
import type { CommandOutput } from './subcommand.ts';
import { subcommands } from './subcommands.ts';

const usageExitCode = 2;

/** Runs `horovod` and ends this process. */
export async function main(argv: readonly string[]): Promise<never> {
  // If the reader of our output has gone (`horovod status | head`), we end as other programs do.
  const onBroken = () => process.exit(128 + 13);
  const stdout = new ConsoleWriter(ownOutput('stdout'), onBroken);
  const stderr = new ConsoleWriter(ownOutput('stderr'), onBroken);
  const exitCode = await run(argv, {
    out: (text) => void stdout.write(text),
    error: (text) => void stderr.write(text),
  });
  await Promise.all([stdout.flush(), stderr.flush()]);
  process.exit(exitCode);
}

/** Resolves to the exit code. */
export async function run(argv: readonly string[], output: CommandOutput): Promise<number> {
  const [first, ...rest] = argv;
  if (first === undefined) {
    output.error(helpText());
    return usageExitCode;
  }
  if (first === '--help' || first === '-h') return print(output, helpText());
  if (first === '--version' || first === '-v') return print(output, `${packageVersion()}\n`);
  if (first === 'help') {
    const [name] = rest;
    return name === undefined ? print(output, helpText()) : runNamed(name, ['--help'], output);
  }
  return runNamed(first, rest, output);
}

async function runNamed(name: string, argv: readonly string[], output: CommandOutput): Promise<number> {
  const found = subcommands.find((subcommand) => subcommand.name === name);
  if (found === undefined) {
    const names = subcommands.map((subcommand) => subcommand.name);
    const what = name.startsWith('-') ? `option ${name}` : `command ${JSON.stringify(name)}`;
    output.error(`horovod: unknown ${what}. The commands are ${names.join(', ')}.\n`);
    output.error(
      isScript(name)
        ? `horovod: To run a script, use \`${typedCommand('horovodrun')} -np 4 ${name}\`.\n`
        : `horovod: See \`${typedCommand('horovod')} --help\`.\n`,
    );
    return usageExitCode;
  }
  try {
    return await found.run(argv, output);
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    output.error(`horovod ${name}: ${error.detail}\n`);
    const isUsage = error.code === 'ERR_HVD_SETTING' || error.code === 'ERR_HVD_UNSUPPORTED';
    if (isUsage) output.error(`horovod ${name}: See \`${typedCommand('horovod')} ${name} --help\`.\n`);
    return isUsage ? usageExitCode : 1;
  }
}

function helpText(): string {
  const width = Math.max(...subcommands.map(({ name }) => name.length));
  const lines = subcommands.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`);
  return `Usage: horovod COMMAND [options]
       horovod help COMMAND | --version | --help

Inspect running Horovod jobs and the files that jobs have written, and serve data to them. To start a job, use horovodrun.

Commands:
${lines.join('\n')}
`;
}

function isScript(name: string): boolean {
  return /\.[cm]?[jt]s$/.test(name);
}

function print(output: CommandOutput, text: string): number {
  output.out(text);
  return 0;
}

// Run directly, without bin/: by tests, and from another output directory.
if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.slice(2));
