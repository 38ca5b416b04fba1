// How busy the GPUs of a host are, as nvidia-smi says. It is asked in a process of its own, never twice at a time, and never for more
// than a tenth of the time: without a daemon that keeps the driver loaded, one answer may take seconds. A host without nvidia-smi is
// asked once.

import { type ChildProcess, execFile } from 'node:child_process';

export interface GpuUse {
  readonly index: number;
  readonly name: string;
  /** Of the last second or less: from 0 to 1. Undefined where the GPU does not tell. */
  readonly busyShare?: number | undefined;
  readonly usedBytes?: number | undefined;
  readonly totalBytes?: number | undefined;
}

export interface GpuMeterOptions {
  /** Default: nvidia-smi in the PATH. */
  readonly command?: string | undefined;
  /** How long one answer is waited for. */
  readonly timeoutMs?: number | undefined;
  /** For one second of nvidia-smi, so many without it. Default: 9. */
  readonly restFactor?: number | undefined;
}

const query = ['--query-gpu=index,name,utilization.gpu,memory.used,memory.total'];
const format = ['--format=csv,noheader,nounits'];
/** So many failures in a row, and it is not asked any more. */
const maxFailures = 3;
const maxGpus = 64;

export class GpuMeter {
  readonly #command: string;
  readonly #timeoutMs: number;
  readonly #restFactor: number;
  #child: ChildProcess | undefined;
  #gpus: readonly GpuUse[] = [];
  #failures = 0;
  #nextAtMs = 0;

  constructor({ command = 'nvidia-smi', timeoutMs = 5000, restFactor = 9 }: GpuMeterOptions = {}) {
    this.#command = command;
    this.#timeoutMs = timeoutMs;
    this.#restFactor = restFactor;
  }

  /** The newest answer. Waits until a process that it starts has ended, or has been killed after a while. */
  async look(): Promise<readonly GpuUse[]> {
    if (this.#child !== undefined || this.#failures >= maxFailures) return this.#gpus;
    const beganAt = performance.now();
    if (beganAt < this.#nextAtMs) return this.#gpus;
    const answer = await this.#ask();
    const now = performance.now();
    this.#nextAtMs = now + (now - beganAt) * this.#restFactor;
    this.#failures = answer === undefined ? this.#failures + 1 : 0;
    // Old figures would look like new ones.
    this.#gpus = answer ?? [];
    return this.#gpus;
  }

  close(): void {
    this.#failures = maxFailures;
    this.#child?.kill('SIGKILL');
  }

  /** Undefined: it has failed. */
  #ask(): Promise<readonly GpuUse[] | undefined> {
    return new Promise((resolve) => {
      const options = { maxBuffer: 256 * 1024, windowsHide: true };
      const child = execFile(this.#command, [...query, ...format], options, (error, stdout) => {
        this.#child = undefined;
        clearTimeout(deadline);
        if (error?.code === 'ENOENT' || error?.code === 'EACCES') this.#failures = maxFailures;
        resolve(error === null ? parseGpus(stdout) : undefined);
      });
      this.#child = child;
      // A process that waits for a broken driver cannot be killed: nobody waits for its end.
      const deadline = setTimeout(() => {
        child.kill('SIGKILL');
        resolve(undefined);
      }, this.#timeoutMs);
    });
  }
}

/** Lines such as '0, NVIDIA A100-SXM4-40GB, 87, 12288, 40960'. Undefined where there is no such line. */
export function parseGpus(text: string): GpuUse[] | undefined {
  const gpus = text.split('\n').flatMap((line) => {
    const fields = line.split(',').map((field) => field.trim());
    const index = fields[0] === undefined || fields[0] === '' ? Number.NaN : Number(fields[0]);
    if (!Number.isInteger(index) || index < 0 || fields.length < 5) return [];
    const [busy, used, total] = fields.slice(-3).map(toAmount);
    const name = fields.slice(1, -3).join(', ').slice(0, 80);
    return [
      {
        index,
        name,
        ...(busy === undefined ? {} : { busyShare: Math.min(busy / 100, 1) }),
        ...(used === undefined ? {} : { usedBytes: used * 2 ** 20 }),
        ...(total === undefined ? {} : { totalBytes: total * 2 ** 20 }),
      },
    ];
  });
  return gpus.length === 0 ? undefined : gpus.slice(0, maxGpus);
}

/** Undefined for '[N/A]' and '[Not Supported]'. */
function toAmount(field: string): number | undefined {
  const value = field === '' ? Number.NaN : Number(field);
  return Number.isFinite(value) && value >= 0 ? value : undefined;
}
