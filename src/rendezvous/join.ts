// How a process comes into its job: finds the store through which the ranks meet.

import { HorovodError } from '../errors.ts';
import type { Settings } from '../settings/table.ts';
import type { JobSecret } from './job-secret.ts';
import type { Store, WaitOptions } from './store.ts';
import { TcpStore } from './tcp-store.ts';

export interface JoinedJob {
  readonly store: Store;
  readonly rank: number;
  readonly size: number;
  readonly secret: JobSecret;
  readonly jobId: string;
  close(): void;
}

export async function joinJob(settings: Settings, wait: WaitOptions): Promise<JoinedJob> {
  const { rendezvousAddress: address, secret, jobId, rank, size } = settings;
  if (address === undefined || secret === undefined || jobId === undefined) {
    throw new HorovodError(
      'ERR_HVD_RENDEZVOUS',
      `rank ${rank}: HOROVOD_SIZE=${size}, but there is no launcher to find the other ranks by ` +
        '(HOROVOD_RENDEZVOUS_ADDR, HOROVOD_JOB_ID). Start the job with horovodrun.',
    );
  }
  const { signal, timeoutMs = settings.startTimeoutMs } = wait;
  const store = await TcpStore.connect({ address, secret, jobId, rank, signal, timeoutMs });
  return { store, rank, size, secret, jobId, close: () => store.close() };
}
