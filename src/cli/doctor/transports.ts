// Two ranks on this machine, over each transport that it has.

import { HorovodError } from '../../errors.ts';
import { run } from '../../launch/run/run.ts';
import type { Settings, TransportChoice } from '../../settings/table.ts';
import { describeNative } from '../../transport/native/describe-native.ts';
import type { Finding } from './finding.ts';
import type { ProbeResult } from './probe.ts';

const ranks = 2;

/** Those for which there is an addon; tests of `mpi` need its mpirun. */
export function transportsToTry(settings: Settings, hasMpirun: boolean): TransportChoice[] {
  const search = { native: settings.native, nativePath: settings.nativePath };
  const hasAddon = (transport?: string) =>
    describeNative(transport === undefined ? search : { ...search, transport }).built;
  return [
    ...(hasAddon() ? (['shm', 'tcp'] as const) : []),
    ...(hasMpirun && hasAddon('mpi') ? (['mpi'] as const) : []),
    ...(hasAddon('gloo') ? (['gloo'] as const) : []),
    'portable',
  ];
}

/** Starts the ranks, and waits for them for as long as `signal` lets it. */
export async function tryTransport(transport: TransportChoice, signal: AbortSignal): Promise<Finding> {
  const began = performance.now();
  try {
    const results = await run<ProbeResult>(new URL('./probe.js', import.meta.url), {
      np: ranks,
      transport,
      signal,
      showOutput: false,
      // A root user in a container is as good as any for this.
      env: { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' },
    });
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const [first] = results as [ProbeResult, ...ProbeResult[]];
    if (results.some(({ isRight }) => !isRight)) {
      return {
        state: 'failed',
        name: transport,
        detail: 'the sum of two ranks was wrong: please report this',
      };
    }
    const slowest = Math.max(...results.map(({ milliseconds }) => milliseconds));
    const detail = `allreduce of 1 MiB in ${slowest.toFixed(slowest < 10 ? 2 : 0)} ms; start and end of the job ${seconds} s`;
    return { state: first.transport === transport ? 'ok' : 'failed', name: transport, detail };
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    const [detail = ''] = error.detail.split('\n');
    return {
      state: 'failed',
      name: transport,
      detail,
      advice: `horovodrun -np ${ranks} --verbose --transport ${transport} SCRIPT shows more`,
    };
  }
}
