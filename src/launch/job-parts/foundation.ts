// What every job of horovodrun stands on: its identity, the store through which its ranks meet, and the guardian.

import { randomBytes } from 'node:crypto';
import type { Identity } from '../../net/handshake.ts';
import { TcpStoreServer } from '../../rendezvous/store/tcp-store-server.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import type { JobRequest } from '../job-request.ts';
import { Guardian } from '../spawn/guardian.ts';
import { ranksText } from './rank-record.ts';

export interface Foundation {
  readonly secret: JobSecret;
  readonly jobId: string;
  readonly server: TcpStoreServer;
  readonly guardian: Guardian;
}

export function newIdentity(): Identity {
  return { secret: JobSecret.generate(), jobId: randomBytes(8).toString('hex') };
}

/** `numbers`: the store serves clients with numbers below this one. */
export async function layFoundation(
  request: Pick<JobRequest, 'driverEnvironment' | 'remote' | 'isEncrypted' | 'explain'>,
  size: number,
  numbers: number = size,
): Promise<Foundation> {
  const { driverEnvironment, remote, explain } = request;
  const interfaces = remote?.settings.networkInterfaces;
  const identity = remote?.places?.identity ?? newIdentity();
  const guardian = Guardian.start(identity.jobId, driverEnvironment['PATH']);
  try {
    const server = await TcpStoreServer.start({
      ...identity,
      ranks: numbers,
      listenOn: remote === undefined ? 'loopback' : 'all',
      ...(interfaces === undefined ? {} : { networkInterfaces: interfaces }),
    });
    const encryption = request.isEncrypted ? ', tensors encrypted between hosts' : '';
    explain(`job ${identity.jobId}: ${ranksText(size)}, rendezvous at ${server.address}${encryption}`);
    return { ...identity, server, guardian };
  } catch (error) {
    await Promise.all([guardian.dismiss(), remote?.places?.close()]);
    throw error;
  }
}

/** When nothing of the job is running any more. Places are given back with it. */
export async function removeFoundation(
  { server, guardian }: Pick<Foundation, 'server' | 'guardian'>,
  { remote }: Pick<JobRequest, 'remote'>,
): Promise<void> {
  await Promise.all([server.close(), guardian.dismiss(), remote?.places?.close()]);
}
