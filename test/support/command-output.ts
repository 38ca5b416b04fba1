// Collects the output of a subcommand of `horovod` for a test.

import type { CommandOutput } from '../../src/cli/subcommand.ts';

export interface KeptOutput extends CommandOutput {
  readonly said: { readonly out: string; readonly error: string };
}

export function keepOutput(): KeptOutput {
  const pieces = { out: [] as string[], error: [] as string[] };
  return {
    out: (text) => void pieces.out.push(text),
    error: (text) => void pieces.error.push(text),
    get said() {
      return { out: pieces.out.join(''), error: pieces.error.join('') };
    },
  };
}
