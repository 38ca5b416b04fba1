// What a trainer asks of a data service, from the options of sendToDataService() and distribute(), with their checks.

import { randomUUID } from 'node:crypto';
import { createLog } from '../../console/log.ts';
import { allgatherObjectSync } from '../../context/default/default-collectives.ts';
import { currentGeneration, elasticWorker, openContext } from '../../context/default/default-context.ts';
import { HorovodError } from '../../errors.ts';
import { checkNames, invalid, readFlag } from '../../operations/check-options.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { describe } from '../../tensor/tensor.ts';
import { TfDataServiceConfig } from './config.ts';
import type { ServiceRequest } from './service-data.ts';
import { DispatcherHandle } from './tf-data-service.ts';
import { ThreadHost } from './thread-host.ts';

/** How compute workers go through the data: all together once in an epoch, or each of them. */
export type ProcessingMode = 'distributed_epoch' | 'parallel_epochs';

/** Options of sendToDataService(). */
export interface SendToDataServiceOptions {
  /** This trainer and how many there are; default: those of the job. */
  rank?: number | undefined;
  size?: number | undefined;
  /** Default: 'distributed_epoch'. */
  processingMode?: ProcessingMode | undefined;
  /** All trainers share one pass over the data. Default: each trainer has its own. */
  reuseDataset?: boolean | undefined;
  /** With reuseDataset: batches are dealt in rounds, one for each trainer. Default: whoever asks first gets the next one. */
  roundRobin?: boolean | undefined;
  /** With reuseDataset: tells the datasets of one training run apart. Default: 'job'. */
  jobName?: string | undefined;
  /** What happens when all compute workers are lost, and none comes back within the timeout. 'local': the trainers do their work. Default: 'fail'. */
  whenLost?: 'fail' | 'local' | undefined;
  /** 'auto': batches of compute workers on the same host go through memory. 'tcp': all of them over connections. Default: 'auto'. */
  transport?: 'auto' | 'tcp' | undefined;
}

/** Where a dispatcher of the data service listens; `${address}` is host:port. */
export type DispatcherAddress = DispatcherHandle;

/** Options of distribute(). */
export interface DistributeOptions {
  /** What tfDataService() gives. */
  service: DispatcherAddress;
  /** Default: 'distributed_epoch'. */
  processingMode?: ProcessingMode | undefined;
  /** Trainers that give the same name share one pass over the data. Default: each has its own. */
  jobName?: string | undefined;
  /** Round robin: this trainer, and how many there are. */
  consumerIndex?: number | undefined;
  numConsumers?: number | undefined;
}

/** Who asks. */
export type TrainerPlace = ServiceRequest['place'];

const modes = ['distributed_epoch', 'parallel_epochs'];
const sendOptions = [
  'rank',
  'size',
  'processingMode',
  'reuseDataset',
  'roundRobin',
  'jobName',
  'whenLost',
  'transport',
] as const;

/** Of sendToDataService(). */
export function sendRequest(config: TfDataServiceConfig, options: SendToDataServiceOptions): ServiceRequest {
  const call = 'sendToDataService()';
  checkConfig(config, call);
  checkNames(options, sendOptions, call);
  const { rank, size, processingMode, jobName = 'job', whenLost = 'fail' } = options;
  const { transport = 'auto' } = options;
  if (whenLost !== 'fail' && whenLost !== 'local')
    throw invalid(call, `whenLost is 'fail' or 'local', not ${describe(whenLost)}`);
  if (transport !== 'auto' && transport !== 'tcp')
    throw invalid(call, `transport is 'auto' or 'tcp', not ${describe(transport)}`);
  const reuses = readFlag(options, 'reuseDataset', false, call);
  const isRoundRobin = readFlag(options, 'roundRobin', false, call);
  if (config.dispatcherSide === 'training') {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      'training side dispatcher not supported, use tfDataService() instead: sendToDataService() is for dispatchers on the compute side.',
    );
  }
  if (isRoundRobin && !reuses) throw invalid(call, 'roundRobin needs reuseDataset: true');
  const place = placeOf(call, rank, size);
  const index = () => dispatcherOf(config, place(), call);
  return requestOf(config, index, place, {
    call,
    jobName: reuses ? jobName : undefined,
    isRoundRobin,
    isParallel: checkedMode(processingMode, call) === 'parallel_epochs',
    worksWhenLost: whenLost === 'local',
    sharesMemory: transport === 'auto',
  });
}

/** Of distribute(). */
export function distributeRequest(options: DistributeOptions): ServiceRequest {
  const call = 'distribute()';
  checkNames(options, ['service', 'processingMode', 'jobName', 'consumerIndex', 'numConsumers'], call);
  const { service, processingMode, jobName, consumerIndex, numConsumers } = options;
  if (!(service instanceof DispatcherHandle))
    throw invalid(call, `service is what tfDataService() gives, not ${describe(service)}`);
  if ((consumerIndex === undefined) !== (numConsumers === undefined))
    throw invalid(call, 'give consumerIndex and numConsumers, or neither');
  if (numConsumers !== undefined && jobName === undefined)
    throw invalid(call, 'consumerIndex and numConsumers need a jobName, which all trainers share');
  const { config, index } = service;
  const place = placeOf(call, consumerIndex, numConsumers);
  return requestOf(config, () => index, place, {
    call,
    jobName,
    isRoundRobin: numConsumers !== undefined,
    isParallel: checkedMode(processingMode, call) === 'parallel_epochs',
  });
}

function requestOf(
  config: TfDataServiceConfig,
  index: () => number,
  place: TrainerPlace,
  choice: Pick<ServiceRequest, 'call' | 'jobName' | 'isRoundRobin' | 'isParallel'> & {
    readonly worksWhenLost?: boolean;
    readonly sharesMemory?: boolean;
  },
): ServiceRequest {
  const settings = readSettings(processEnvironment());
  const { native, nativePath } = settings;
  // With several dispatchers each trainer has one of its own, and with it a job.
  const jobName = config.dispatchers > 1 ? undefined : choice.jobName;
  return {
    ...choice,
    jobName,
    isRoundRobin: jobName !== undefined && choice.isRoundRobin,
    place,
    run: jobName === undefined ? randomUUID() : (settings.jobId ?? ''),
    silenceMs: settings.operationTimeoutMs,
    generation: currentGeneration,
    depth: Math.max(4, 2 * config.workersPerDispatcher),
    gather: (own) =>
      (openContext()?.world.size ?? 1) > 1
        ? allgatherObjectSync(own, { name: `horovod.data.service.${jobName ?? 'own'}` })
        : [own],
    watch: () => openContext()?.data,
    warn: (text) => (openContext()?.log ?? createLog(settings, settings.rank)).write('warning', text),
    openHost: (job, consumer) =>
      new ThreadHost({
        config: config.toJSON(),
        dispatcher: index(),
        request: job,
        consumer,
        isEncrypted: settings.encrypt,
        worksWhenLost: choice.worksWhenLost === true,
        maxBatchBytes: settings.dataMemoryMb * 2 ** 20,
        sharing: choice.sharesMemory === false ? undefined : { native, nativePath },
      }),
  };
}

/** The dispatcher of a trainer. */
export function dispatcherOf(
  config: TfDataServiceConfig,
  { rank, size }: { readonly rank: number; readonly size: number | undefined },
  call: string,
): number {
  if (config.dispatchers === 1) return 0;
  if (elasticWorker() !== undefined)
    throw invalid(
      call,
      `an elastic job needs a data service with one dispatcher, and this one has ${config.dispatchers}`,
    );
  if ((size !== undefined && size !== config.dispatchers) || rank >= config.dispatchers)
    throw invalid(
      call,
      `each trainer has a dispatcher of its own where there are several: the service has ${config.dispatchers} dispatchers, and there are ${size ?? rank + 1} trainers. Start as many trainers as dispatchers, or a service with one dispatcher`,
    );
  return rank;
}

export function placeOf(call: string, rank: number | undefined, size: number | undefined): TrainerPlace {
  const isWhole = (value: unknown, min: number) => Number.isSafeInteger(value) && (value as number) >= min;
  if (rank !== undefined && !isWhole(rank, 0))
    throw invalid(call, `the rank is a whole number from 0, not ${describe(rank)}`);
  if (size !== undefined && !isWhole(size, 1))
    throw invalid(call, `the number of trainers is a whole number from 1, not ${describe(size)}`);
  if (rank !== undefined && size !== undefined && rank >= size)
    throw invalid(call, `rank ${rank} is not below the number of trainers, ${size}`);
  return () => {
    const world = openContext()?.world;
    return { rank: rank ?? world?.rank ?? 0, size: size ?? world?.size ?? Math.max(1, (rank ?? 0) + 1) };
  };
}

function checkedMode(mode: ProcessingMode = 'distributed_epoch', call: string): ProcessingMode {
  if (modes.includes(mode)) return mode;
  throw invalid(call, `processingMode is 'distributed_epoch' or 'parallel_epochs', not ${describe(mode)}`);
}

export function checkConfig(config: unknown, call: string): void {
  if (config instanceof TfDataServiceConfig) return;
  throw invalid(call, `config is what TfDataServiceConfig.read() gives, not ${describe(config)}`);
}
