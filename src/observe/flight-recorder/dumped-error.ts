// An error as a dump has it.

import type { DumpedError } from './flight-dump.ts';

export function dumpedError(error: unknown): DumpedError | undefined {
  if (error === undefined) return undefined;
  if (!(error instanceof Error)) return { code: 'Error', message: String(error) };
  const { code, rank } = error as { code?: unknown; rank?: unknown };
  return {
    code: typeof code === 'string' ? code : error.name,
    message: error.message,
    ...(typeof rank === 'number' ? { rank } : {}),
  };
}
