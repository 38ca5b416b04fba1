// One look at a host: processors, memory, GPUs, and whether its memory runs low. It reads a few small files, which takes a fraction of a
// millisecond.

import { type Places, systemPlaces } from './cgroups.ts';
import { GpuMeter, type GpuMeterOptions, type GpuUse } from './gpu-use.ts';
import type { HostUse } from './host-use.ts';
import { LowMemory, lowMemoryText, type RankMemory } from './low-memory.ts';
import { readMemory, readRss } from './memory-use.ts';
import { ProcessorMeter } from './processor-use.ts';

/** A rank of this host, and its process. */
export interface LocalRank {
  readonly rank: number;
  readonly pid: number;
}

export interface HostSamplerOptions {
  /** The name of this host. */
  readonly host: string;
  /** Called once each time that the memory of this host begins to run low. */
  readonly onLowMemory?: ((warning: string) => void) | undefined;
  readonly places?: Places | undefined;
  /** 'none': a rank starts no processes for it. */
  readonly gpus?: GpuMeterOptions | 'none' | undefined;
}

export class HostSampler {
  readonly #options: HostSamplerOptions;
  readonly #places: Places;
  readonly #processors: ProcessorMeter;
  readonly #gpus: GpuMeter | undefined;
  readonly #lowMemory = new LowMemory();

  constructor(options: HostSamplerOptions) {
    const { places = systemPlaces, gpus } = options;
    this.#options = options;
    this.#places = places;
    this.#processors = new ProcessorMeter(places);
    this.#gpus = gpus === 'none' ? undefined : new GpuMeter(gpus);
  }

  /** Where the host has GPUs, this waits for nvidia-smi; the rest is looked at at once. */
  async look(ranks: readonly LocalRank[]): Promise<HostUse> {
    const use = this.lookAtFiles(ranks);
    const gpus = await this.#gpus?.look();
    return gpus === undefined ? use : { ...use, gpus };
  }

  lookAtFiles(ranks: readonly LocalRank[], gpus: readonly GpuUse[] = []): HostUse {
    const { host, onLowMemory } = this.#options;
    // Whoever looks may be in another cgroup than the ranks.
    const pid = ranks[0]?.pid ?? 'self';
    const processors = this.#processors.look(pid);
    const memory = readMemory(this.#places, pid);
    const state = memory === undefined ? 'fine' : this.#lowMemory.look(memory);
    const warning =
      memory === undefined || state === 'fine' ? undefined : lowMemoryText(memory, this.#memoryOf(ranks));
    if (state === 'began' && warning !== undefined) onLowMemory?.(warning);
    return {
      host,
      takenAt: Date.now(),
      gpus,
      ...(processors === undefined ? {} : { processors }),
      ...(memory === undefined ? {} : { memory }),
      ...(warning === undefined ? {} : { warning }),
    };
  }

  close(): void {
    this.#gpus?.close();
  }

  #memoryOf(ranks: readonly LocalRank[]): RankMemory[] {
    return ranks.flatMap(({ rank, pid }) => {
      const rssBytes = readRss(this.#places, pid);
      return rssBytes === undefined ? [] : [{ rank, pid, rssBytes }];
    });
  }
}
