// How a dataset is turned into one that comes from a data service, without a method of its own for everybody to see.

import type { ServiceRequest } from './service-data.ts';

/** (request) => dataset: compute workers do what was called so far. */
export const throughService: unique symbol = Symbol('horovod.data.service');

export type Through<D> = (request: ServiceRequest) => D;
