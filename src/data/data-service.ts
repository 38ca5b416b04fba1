// The data service, as trainers use it: sendToDataService() for dispatchers on the compute side, tfDataService() and distribute() for
// those on either side. The names are those of Python Horovod.

import { openContext } from '../context/default/default-context.ts';
import { invalid } from '../operations/check-options.ts';
import { describe } from '../tensor/tensor.ts';
import type { Dataset } from './dataset.ts';
import type { TfDataServiceConfig } from './service/config.ts';
import {
  checkConfig,
  type DispatcherAddress,
  type DistributeOptions,
  dispatcherOf,
  distributeRequest,
  placeOf,
  type SendToDataServiceOptions,
  sendRequest,
} from './service/requests.ts';
import type { ServiceRequest } from './service/service-data.ts';
import { openDispatcherFor } from './service/tf-data-service.ts';
import { type Through, throughService } from './service/through.ts';

/** A part in a data service, until it is closed. */
export interface DataServicePart extends AsyncDisposable {
  readonly dispatcherAddress: DispatcherAddress;
  close(): Promise<void>;
}

/** For dataset.apply(). */
export type DatasetTransform = <T>(dataset: Dataset<T>) => Dataset<T>;

/** dataset.apply(sendToDataService(config)): the calls before it run on the compute workers of the service. */
export function sendToDataService(
  config: TfDataServiceConfig,
  options: SendToDataServiceOptions = {},
): DatasetTransform {
  const request = () => sendRequest(config, options);
  request();
  return (dataset) => through(dataset, request());
}

/**
 * Takes part in the data service: opens the dispatcher of this trainer where dispatchers are on the training side, and waits until it
 * and its compute workers are there. With `body`, for as long as that runs; else until the result is closed.
 */
export async function tfDataService<R>(
  config: TfDataServiceConfig,
  rank: number | undefined,
  body: (dispatcherAddress: DispatcherAddress) => R | Promise<R>,
): Promise<R>;
export async function tfDataService(config: TfDataServiceConfig, rank?: number): Promise<DataServicePart>;
export async function tfDataService<R>(
  config: TfDataServiceConfig,
  rank?: number,
  body?: (dispatcherAddress: DispatcherAddress) => R | Promise<R>,
): Promise<R | DataServicePart> {
  const call = 'tfDataService()';
  checkConfig(config, call);
  const own = placeOf(call, rank, undefined)().rank;
  const index = dispatcherOf(config, { rank: own, size: openContext()?.world.size }, call);
  const part = await openDispatcherFor(config, own, index);
  if (body === undefined) return part;
  try {
    return await body(part.dispatcherAddress);
  } finally {
    await part.close();
  }
}

/** dataset.apply(distribute({ service })): the calls before it run on the compute workers of that dispatcher. */
export function distribute(options: DistributeOptions): DatasetTransform {
  distributeRequest(options);
  return (dataset) => through(dataset, distributeRequest(options));
}

function through<T>(dataset: Dataset<T>, request: ServiceRequest): Dataset<T> {
  const { [throughService]: go } = Object(dataset) as { [throughService]?: Through<Dataset<T>> };
  if (go === undefined) throw invalid(request.call, `expected a dataset, not ${describe(dataset)}`);
  return go(request);
}
