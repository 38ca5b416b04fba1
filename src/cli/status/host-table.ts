// How busy the hosts of a job are, as text for a terminal: a line for each host, and for each further GPU. Pure functions.

import { amountText, bytesText } from '../../console/amounts.ts';
import { plain } from '../../console/terminal-text.ts';
import type { GpuUse } from '../../observe/hosts/gpu-use.ts';
import type { HostUse } from '../../observe/hosts/host-use.ts';
import type { MemoryUse } from '../../observe/hosts/memory-use.ts';
import type { ProcessorUse } from '../../observe/hosts/processor-use.ts';
import { cut, type TextColumn, textTable } from './text-table.ts';

/** Hosts are looked at every two seconds; what is known of others arrives a second later. */
const staleAfterMs = 10_000;

const columns: readonly TextColumn[] = [
  { title: 'host', align: 'left', max: 20 },
  { title: 'cpu', align: 'left', max: 24 },
  { title: 'memory', align: 'left', max: 36 },
  { title: 'gpu', align: 'left', max: 40, isOptional: true },
  { title: 'gpu busy', align: 'right', max: 8, isOptional: true },
  { title: 'gpu memory', align: 'left', max: 24, isOptional: true },
];

/** A table, and a line for each host whose memory runs low. `now`: Date.now(). */
export function hostLines(hosts: readonly HostUse[], now: number): string[] {
  const fresh = hosts.filter(({ takenAt }) => now - takenAt < staleAfterMs);
  if (fresh.length === 0) return [];
  const rows = fresh.flatMap(({ host, processors, memory, gpus }) => {
    const [first, ...others] = gpus.map(gpuCells);
    return [
      [host, processorText(processors), memoryText(memory), ...(first ?? ['', '', ''])],
      ...others.map((cells) => ['', '', '', ...cells]),
    ];
  });
  const warnings = fresh.flatMap(({ host, warning }) =>
    warning === undefined ? [] : [`memory of ${plain(host)}: ${cut(plain(warning), 600)}`],
  );
  return [...textTable(columns, rows), ...warnings];
}

/** '150 %': one and a half processors. */
export function percentText(cores: number): string {
  return `${Math.round(100 * cores)} %`;
}

function processorText(use: ProcessorUse | undefined): string {
  if (use === undefined) return '';
  const of = `${amountText(use.cores)} ${use.cores === 1 ? 'core' : 'cores'}`;
  return use.busyCores === undefined ? of : `${percentText(use.busyCores)} of ${of}`;
}

function memoryText(use: MemoryUse | undefined): string {
  if (use === undefined) return '';
  const { totalBytes, availableBytes, limit } = use;
  const whose = limit === 'cgroup' ? ' (cgroup)' : '';
  return `${bytesText(totalBytes - availableBytes)} of ${bytesText(totalBytes)}${whose}`;
}

function gpuCells({ index, name, busyShare, usedBytes, totalBytes }: GpuUse): string[] {
  const used = usedBytes === undefined ? '' : bytesText(usedBytes);
  const of = totalBytes === undefined ? '' : ` of ${bytesText(totalBytes)}`;
  return [`${index}: ${name}`, busyShare === undefined ? '' : percentText(busyShare), `${used}${of}`];
}
