// From the options of a program to a job in places of Ray.

import { inspect } from 'node:util';
import { processEnvironment } from '../../settings/environment.ts';
import { settingError } from '../../settings/setting.ts';
import { startRun } from '../run/start-run.ts';
import { type RayShape, rayPlaces } from './ray-places.ts';
import { RayProcess } from './ray-process.ts';
import type { RayRunOptions } from './run.ts';

const defaultStartTimeoutMs = 600_000;

export async function startRayRun(target: unknown, options: RayRunOptions): Promise<unknown[]> {
  const { numWorkers, numHosts, workersPerHost, cpusPerWorker, gpusPerWorker, ...rest } = options;
  const {
    minWorkers,
    maxWorkers,
    address,
    init,
    pythonExecutable = 'python3',
    startTimeoutMs,
    ...job
  } = rest;
  const shape = shapeOf(options);
  if (init !== undefined && (typeof init !== 'object' || init === null))
    throw wrong('init', init, 'an object of arguments of ray.init()');
  const environment = processEnvironment();
  const give = rayPlaces({
    shape,
    address,
    init: init ?? {},
    startTimeoutMs: startTimeoutMs ?? defaultStartTimeoutMs,
    connect: (explain) => new RayProcess({ python: pythonExecutable, environment, explain }),
  });
  const np = shape.elastic === undefined ? { np: shape.count } : { np: numWorkers ?? minWorkers };
  return startRun(target, { ...job, ...np, minNp: minWorkers, maxNp: shape.elastic?.max }, give);
}

/** Throws ERR_HVD_SETTING. */
export function shapeOf(options: RayRunOptions): RayShape {
  const { numHosts, workersPerHost, cpusPerWorker = 1, gpusPerWorker = 0, minWorkers, maxWorkers } = options;
  for (const name of ['numWorkers', 'numHosts', 'workersPerHost', 'minWorkers', 'maxWorkers'] as const) {
    const value: unknown = options[name];
    if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) >= 1))
      throw wrong(name, value, 'an integer ≥ 1');
  }
  for (const [name, value] of Object.entries({ cpusPerWorker, gpusPerWorker }))
    if (typeof value !== 'number' || !(value >= 0) || !Number.isFinite(value))
      throw wrong(name, value, 'a number from 0');
  const resources = { cpusPerWorker, gpusPerWorker };
  if (minWorkers === undefined && maxWorkers !== undefined)
    throw settingError('ray: maxWorkers is for elastic jobs. Add minWorkers, or remove it.');
  if (numHosts === undefined && workersPerHost === undefined) {
    const count = options.numWorkers ?? minWorkers ?? 1;
    if (minWorkers === undefined) return { ...resources, count, perHost: undefined, elastic: undefined };
    const max = maxWorkers ?? count;
    if (max < minWorkers) throw settingError(`ray: maxWorkers is ${max}, and minWorkers is ${minWorkers}.`);
    return { ...resources, count, perHost: undefined, elastic: { max } };
  }
  if (numHosts === undefined || workersPerHost === undefined)
    throw settingError('ray: numHosts and workersPerHost belong together. Give both, or numWorkers.');
  if (options.numWorkers !== undefined && options.numWorkers !== numHosts * workersPerHost)
    throw settingError(
      `ray: numWorkers is ${options.numWorkers}, and numHosts × workersPerHost is ${numHosts * workersPerHost}. Give one of them.`,
    );
  if (minWorkers !== undefined)
    throw settingError('ray: an elastic job takes what nodes there are. Give numWorkers, not numHosts.');
  return { ...resources, count: numHosts * workersPerHost, perHost: workersPerHost, elastic: undefined };
}

function wrong(name: string, value: unknown, expected: string) {
  return settingError(`ray: ${name} is ${inspect(value, { depth: 0 })}; expected ${expected}.`);
}
