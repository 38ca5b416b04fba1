// The content of a host's page in the control block, as JSON: how busy the host is, and how much of its memory is left. Readers check
// each field, because a page may come from another version or be damaged.

import type { GpuUse } from './gpu-use.ts';
import type { MemoryUse } from './memory-use.ts';
import type { ProcessorUse } from './processor-use.ts';

export interface HostUse {
  readonly host: string;
  /** Date.now() of that host. */
  readonly takenAt: number;
  readonly processors?: ProcessorUse | undefined;
  readonly memory?: MemoryUse | undefined;
  readonly gpus: readonly GpuUse[];
  /** That its memory runs low, and what to do. */
  readonly warning?: string | undefined;
}

const textLimit = 600;
const gpuLimit = 64;

/** Uses at most `limitBytes`: GPUs that do not fit are left out. */
export function encodeHostUse(use: HostUse, limitBytes: number): Buffer {
  let gpus = use.gpus.slice(0, gpuLimit);
  for (;;) {
    const text = Buffer.from(JSON.stringify({ ...use, warning: use.warning?.slice(0, textLimit), gpus }));
    if (text.length <= limitBytes || gpus.length === 0) return text;
    gpus = gpus.slice(0, -1);
  }
}

/** Undefined if the text is not that. */
export function decodeHostUse(text: string): HostUse | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return toHostUse(value);
}

export function toHostUse(value: unknown): HostUse | undefined {
  if (!isObject(value)) return undefined;
  const { host, takenAt, gpus, warning } = value;
  if (!isText(host) || !isNumber(takenAt)) return undefined;
  const processors = toProcessors(value['processors']);
  const memory = toMemory(value['memory']);
  return {
    host,
    takenAt,
    ...(processors === undefined ? {} : { processors }),
    ...(memory === undefined ? {} : { memory }),
    gpus: Array.isArray(gpus) ? gpus.slice(0, gpuLimit).flatMap(toGpu) : [],
    ...(isText(warning) ? { warning } : {}),
  };
}

function toProcessors(value: unknown): ProcessorUse | undefined {
  if (!isObject(value)) return undefined;
  const { cores, busyCores } = value;
  if (!isNumber(cores)) return undefined;
  return isNumber(busyCores) ? { cores, busyCores } : { cores };
}

function toMemory(value: unknown): MemoryUse | undefined {
  if (!isObject(value)) return undefined;
  const { totalBytes, availableBytes, limit } = value;
  if (!isNumber(totalBytes) || !isNumber(availableBytes)) return undefined;
  if (limit !== 'machine' && limit !== 'cgroup') return undefined;
  return { totalBytes, availableBytes, limit };
}

function toGpu(value: unknown): GpuUse[] {
  if (!isObject(value)) return [];
  const { index, name, busyShare, usedBytes, totalBytes } = value;
  if (!isNumber(index) || !isText(name)) return [];
  return [
    {
      index,
      name,
      ...(isNumber(busyShare) && busyShare <= 1 ? { busyShare } : {}),
      ...(isNumber(usedBytes) ? { usedBytes } : {}),
      ...(isNumber(totalBytes) ? { totalBytes } : {}),
    },
  ];
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 4096;
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
