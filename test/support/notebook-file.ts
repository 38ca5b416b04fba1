// Notebooks for tests, as Jupyter writes them.

export interface CellSpec {
  readonly source: string | readonly string[];
  readonly tags?: readonly string[];
  readonly type?: 'code' | 'markdown' | 'raw';
  /** The N of `In [N]`. */
  readonly count?: number;
}

export const denoMetadata = {
  kernelspec: { name: 'deno', display_name: 'Deno', language: 'typescript' },
  language_info: { name: 'typescript', file_extension: '.ts' },
};

/** The text of a file. A cell that is only text is a code cell. */
export function notebookText(
  cells: readonly (string | CellSpec)[],
  top: Readonly<Record<string, unknown>> = {},
): string {
  const list = cells.map((cell) => {
    const { source, tags = [], type = 'code', count } = typeof cell === 'string' ? { source: cell } : cell;
    const common = { cell_type: type, metadata: { tags }, source };
    return type === 'code' ? { ...common, execution_count: count ?? null, outputs: [] } : common;
  });
  return JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: denoMetadata, cells: list, ...top });
}
