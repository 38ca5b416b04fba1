// `horovod status`: what the ranks of running jobs are doing.

import type { CommandOutput } from '../cli/subcommand.ts';

const help = `usage: horovod status [options]
`;

async function run(argv: readonly string[], output: CommandOutput): Promise<number> {
  if (argv.includes('--help') || argv.includes('-h')) output.out(help);
  return 0;
}

export const statusCommand: { run(argv: readonly string[], output: CommandOutput): Promise<number> } = {
  run,
};
