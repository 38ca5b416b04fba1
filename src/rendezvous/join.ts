// How a process comes into its job: finds the store through which the ranks meet, its rank and the job's secret,
// whoever has started it.

import { createLog } from '../console/log.ts';
import { HorovodError } from '../errors.ts';
import type { WaitOptions } from '../net/wait.ts';
import { JobSecret } from '../settings/job-secret.ts';
import type { LauncherEnvironment } from '../settings/launcher-environment.ts';
import type { Settings } from '../settings/table.ts';
import type { StoreChannel } from './store/messages.ts';
import type { Store } from './store/store.ts';
import { TcpStore } from './store/tcp-store.ts';

export interface JoinedJob {
  readonly store: Store;
  readonly rank: number;
  readonly size: number;
  /** Of this job alone: another job at the same address has another one. */
  readonly secret: JobSecret;
  readonly jobId: string;
  readonly launcher: LauncherEnvironment['kind'];
  /** In good order: whoever still needs something from this process gets it. */
  close(): void;
}

/**
 * Whether ranks that no launcher of ours has started form an elastic job: where one that dies does not end the others. mpirun ends them all.
 */
export function isElasticWithoutLauncher({ launcher, minProcesses }: Settings): boolean {
  const canOutlive = launcher.kind === 'slurm' || launcher.kind === 'rendezvous';
  return canOutlive && launcher.size > 1 && minProcesses !== undefined;
}

/** `channel`: what the connection to the store is for; a rank has one of each at a time. */
export async function joinJob(
  settings: Settings,
  wait: WaitOptions,
  channel: StoreChannel = '',
): Promise<JoinedJob> {
  const { launcher } = settings;
  const { signal, timeoutMs = settings.startTimeoutMs } = wait;
  if (launcher.kind === 'horovodrun') return joinLauncher(settings, { signal, timeoutMs }, channel);
  if (launcher.kind === 'alone' || launcher.size === 1) return alone(launcher.kind);
  // Most jobs have a launcher: they do not load the code of the others.
  const [{ meet }, { meetingPlace }, { pmiMeetingPlace }, { meetBySignpost }, { elasticMeeting }] =
    await Promise.all([
      import('./without-launcher/meet.ts'),
      import('./without-launcher/meeting-places.ts'),
      import('./without-launcher/pmi-meeting-place.ts'),
      import('./without-launcher/signpost.ts'),
      import('./without-launcher/rank-driver.ts'),
    ]);
  const place =
    launcher.kind === 'pmi'
      ? await pmiMeetingPlace(launcher, settings, { signal, timeoutMs })
      : await meetingPlace(launcher, settings);
  const onComer = (text: string) => createLog(settings, 0).write('debug', text, { topic: 'rendezvous' });
  const elastic = isElasticWithoutLauncher(settings)
    ? elasticMeeting(settings, launcher.size, (text) => createLog(settings, 0).tell(text))
    : undefined;
  const noisy = { ...place, jobId: idOfLauncher(settings), onComer, elastic };
  const { store, rank, jobId } =
    place.signpost === undefined
      ? await meet(noisy, { signal, timeoutMs })
      : await meetBySignpost(noisy, place.signpost, { signal, timeoutMs });
  if (place.notice !== undefined && rank === 0) {
    const level = launcher.kind === 'rendezvous' ? 'warning' : 'info';
    createLog(settings, rank).write(level, place.notice);
  }
  const secret = place.secret.derive(jobId);
  const { kind, size } = launcher;
  return { store, rank, size, secret, jobId, launcher: kind, close: () => store.close() };
}

async function joinLauncher(
  settings: Settings,
  { signal, timeoutMs }: { signal: AbortSignal | undefined; timeoutMs: number },
  channel: StoreChannel,
): Promise<JoinedJob> {
  const { rendezvousAddress: address, secret, jobId, rank, size } = settings;
  if (size === 1 && address === undefined) return alone('horovodrun');
  if (address === undefined || secret === undefined || jobId === undefined) {
    throw new HorovodError(
      'ERR_HVD_RENDEZVOUS',
      `rank ${rank}: HOROVOD_SIZE=${size}, but there is no launcher to find the other ranks by ` +
        '(HOROVOD_RENDEZVOUS_ADDR, HOROVOD_JOB_ID). Start the job with horovodrun, or set ' +
        'HOROVOD_RENDEZVOUS=host:port on every rank, with a host of the job.',
    );
  }
  const store = await TcpStore.connect({ address, secret, jobId, rank, channel, signal, timeoutMs });
  return { store, rank, size, secret, jobId, launcher: 'horovodrun', close: () => store.close() };
}

/** horovodrun --mpi gives its job an id, by which it finds it again. Users may set a word there, which names one job after another. */
function idOfLauncher({ launcher, jobId = '' }: Settings): string | undefined {
  const canBe = launcher.kind === 'open-mpi' || launcher.kind === 'pmi';
  return canBe && /^[0-9a-f]{16}$/.test(jobId) ? jobId : undefined;
}

async function alone(launcher: LauncherEnvironment['kind']): Promise<JoinedJob> {
  const { MemoryStore } = await import('./store/memory-store.ts');
  const store = new MemoryStore();
  const secret = JobSecret.generate();
  return { store, rank: 0, size: 1, secret, jobId: 'alone', launcher, close: () => store.close() };
}
