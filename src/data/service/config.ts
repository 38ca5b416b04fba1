// Where a data service is, how large it is, and its key. The compute job writes it to a file, and training processes read it. The
// JSON has the keys of Python Horovod, and in addition the protocol, because the two do not understand each other.

import { setTimeout as sleep } from 'node:timers/promises';
import { defaultFiles } from '../../context/default/default-files.ts';
import { HorovodError } from '../../errors.ts';
import { problemOf } from '../../files/file-system.ts';
import { locationOf } from '../../files/location.ts';
import { parseAddress } from '../../net/addresses.ts';
import { inSeconds } from '../../net/wait.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { readConfigFile, writeConfigFile } from './config-file.ts';
import { ComputeClient, type ComputeClientOptions } from './registry-client.ts';
import type { DispatcherSide, ServicePlace } from './registry-messages.ts';

export interface TfDataServiceConfigFields {
  readonly dispatchers: number;
  readonly workersPerDispatcher: number;
  readonly dispatcherSide: DispatcherSide;
  /** host:port candidates of the registry. */
  readonly addresses: readonly string[];
  /** 32 bytes in hex. */
  readonly key: string;
  /** For registrations and connections, in seconds. Default: 60. */
  readonly timeout?: number | undefined;
  /** Counts the registries of this service. Default: 1. */
  readonly incarnation?: number | undefined;
}

/** As in the file. */
export interface TfDataServiceConfigJson {
  readonly protocol: string;
  readonly dispatchers: number;
  readonly workers_per_dispatcher: number;
  readonly dispatcher_side: DispatcherSide;
  /** Lists of [address, port], by the name of the network. */
  readonly addresses: Readonly<Record<string, readonly (readonly [address: string, port: number])[]>>;
  /** Not there if HOROVOD_DATA_SERVICE_KEY holds it. */
  readonly key?: string;
  readonly timeout: number;
  readonly incarnation: number;
  /** Not in the file: where that is. A service whose registry is lost is found there again. */
  readonly path?: string;
}

export interface ReadConfigOptions {
  /** Wait until the file is there and the service that it names answers. Default: false. */
  readonly waitForFileCreation?: boolean | undefined;
  /** For that wait. Default: 600 000. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const protocol = 'horovod-ts/1';
const defaultTimeoutSeconds = 60;
const pollMs = 250;
/** For one look at whether a service answers. */
const probeMs = 3000;
const sayStaleAfterMs = 5000;

export class TfDataServiceConfig {
  readonly dispatchers: number;
  readonly workersPerDispatcher: number;
  readonly dispatcherSide: DispatcherSide;
  readonly addresses: readonly string[];
  /** In seconds. */
  readonly timeout: number;
  readonly incarnation: number;
  // Private, so that a config that is printed does not show it.
  readonly #key: string;
  /** Where it was read or written. */
  #location: string | undefined;

  constructor(fields: TfDataServiceConfigFields) {
    const { timeout = defaultTimeoutSeconds, incarnation = 1, dispatcherSide, addresses, key } = fields;
    for (const name of ['dispatchers', 'workersPerDispatcher'] as const)
      checkNumber(name, fields[name], Number.isSafeInteger);
    checkNumber('incarnation', incarnation, Number.isSafeInteger);
    checkNumber('timeout', timeout, Number.isFinite);
    if (dispatcherSide !== 'compute' && dispatcherSide !== 'training')
      throw invalid(`dispatcherSide is 'compute' or 'training', not ${JSON.stringify(dispatcherSide)}`);
    if (!Array.isArray(addresses) || addresses.length === 0 || !addresses.every(isAddress))
      throw invalid(`addresses is a list of host:port, not ${JSON.stringify(addresses)}`);
    if (typeof key !== 'string' || JobSecret.fromHex(key) === undefined)
      throw invalid('key is a text of 32 bytes in hex');
    this.dispatchers = fields.dispatchers;
    this.workersPerDispatcher = fields.workersPerDispatcher;
    this.dispatcherSide = dispatcherSide;
    this.addresses = [...addresses];
    this.timeout = timeout;
    this.incarnation = incarnation;
    this.#key = key;
  }

  /** The key of the service, in hex: whoever has it can take part. */
  get key(): string {
    return this.#key;
  }

  static async read(path: string | URL, options: ReadConfigOptions = {}): Promise<TfDataServiceConfig> {
    const location = locationOf(path);
    const config =
      options.waitForFileCreation === true
        ? await waitForService(location, options)
        : await readOnce(location, options.signal);
    config.#location = location;
    return config;
  }

  /** Replaces an existing file; the new one has mode 0600. The key is left out if HOROVOD_DATA_SERVICE_KEY is set. */
  async write(path: string | URL): Promise<void> {
    const location = locationOf(path);
    const { key, path: _, ...others } = this.toJSON();
    const json = keyOfEnvironment() === undefined ? { ...others, key } : others;
    await writeConfigFile(defaultFiles(), location, `${JSON.stringify(json, undefined, 2)}\n`);
    this.#location = location;
  }

  /** With the key: for messages to processes that may have it. */
  toJSON(): TfDataServiceConfigJson {
    const pairs = this.addresses.map((text) => {
      const { host, port } = parseAddress(text) as { host: string; port: number };
      return [host, port] as const;
    });
    return {
      protocol,
      dispatchers: this.dispatchers,
      workers_per_dispatcher: this.workersPerDispatcher,
      dispatcher_side: this.dispatcherSide,
      addresses: { all: pairs },
      key: this.#key,
      timeout: this.timeout,
      incarnation: this.incarnation,
      ...(this.#location === undefined ? {} : { path: this.#location }),
    };
  }

  /** What toJSON() gives, or what is in a file. */
  static fromJSON(json: unknown): TfDataServiceConfig {
    const config = parse(json, 'the JSON');
    const { path } = json as { readonly path?: unknown };
    if (typeof path === 'string') config.#location = path;
    return config;
  }

  /** A client of the registry. It connects when it is first used; close() it. */
  computeClient(): ComputeClient {
    return clientOf(this, this.#location);
  }
}

/** A client that finds the service again at `path`. */
export function clientOf(
  config: TfDataServiceConfig,
  path: string | undefined,
  options: Omit<ComputeClientOptions, 'reread'> = {},
): ComputeClient {
  if (path === undefined) return new ComputeClient(placeOf(config), options);
  const location = locationOf(path);
  const reread = async (signal: AbortSignal): Promise<ServicePlace | undefined> => {
    try {
      return placeOf(await readOnce(location, signal));
    } catch (error) {
      if (problemOf(error) === 'missing') return undefined;
      throw error;
    }
  };
  return new ComputeClient(placeOf(config), { ...options, reread });
}

/** Unless another service has written its own meanwhile. */
export async function removeConfig(config: TfDataServiceConfig, path: string | URL): Promise<void> {
  const location = locationOf(path);
  const files = defaultFiles();
  const there = await readOnce(location, undefined).catch(() => undefined);
  if (there?.addresses.join(',') !== config.addresses.join(',')) return;
  await (await files.fileSystem(location)).remove(location);
}

function placeOf(config: TfDataServiceConfig): ServicePlace {
  const { addresses, key, incarnation, dispatchers, workersPerDispatcher, dispatcherSide, timeout } = config;
  return { addresses, key, incarnation, dispatchers, workersPerDispatcher, dispatcherSide, timeout };
}

async function readOnce(location: string, signal: AbortSignal | undefined): Promise<TfDataServiceConfig> {
  const text = await readConfigFile(defaultFiles(), location, { signal });
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw unusable(`${location} is not JSON.`, cause);
  }
  return parse(json, location);
}

/** Until there is a file whose service answers. One that does not is of a service that has ended, and was left there. */
async function waitForService(
  location: string,
  { timeoutMs = 600_000, signal }: ReadConfigOptions,
): Promise<TfDataServiceConfig> {
  const startedAt = performance.now();
  let stale: { readonly since: number; readonly error: unknown; isSaid: boolean } | undefined;
  for (;;) {
    const config = await readOnce(location, signal).catch((error: unknown) => {
      if (problemOf(error) === 'missing') return undefined;
      throw error;
    });
    if (config !== undefined) {
      const error = await silenceOf(config, signal);
      if (error === undefined) return config;
      stale = { since: stale?.since ?? performance.now(), isSaid: stale?.isSaid ?? false, error };
      if (!stale.isSaid && performance.now() - stale.since >= sayStaleAfterMs) {
        stale.isSaid = true;
        process.emitWarning(
          `${location} is the config of a data service that does not answer (${detailOf(error)}). Waiting for the compute job to ` +
            'write a new one. If there is none, start it with `horovod compute-worker`.',
          { type: 'HorovodWarning', code: 'HVD_DATA_SERVICE' },
        );
      }
    }
    if (performance.now() - startedAt >= timeoutMs) {
      const found =
        config === undefined
          ? 'the file does not exist'
          : `the service in the file does not answer (${detailOf(stale?.error)})`;
      throw new HorovodError(
        'ERR_HVD_TIMEOUT',
        `waited ${inSeconds(timeoutMs)} for a data service at ${location}: ${found}. Has the compute job been started with that ` +
          'path, and is it on a file system that both jobs share?',
        { cause: stale?.error },
      );
    }
    await sleep(pollMs, undefined, { signal }).catch((cause: unknown) => {
      throw new HorovodError('ERR_HVD_ABORTED', `waiting for ${location} was ended by an AbortSignal.`, {
        cause,
      });
    });
  }
}

/** Undefined if the service of `config` answers, else why it does not. */
async function silenceOf(config: TfDataServiceConfig, signal: AbortSignal | undefined): Promise<unknown> {
  await using client = new ComputeClient(placeOf(config));
  try {
    const status = await client.status({ timeoutMs: probeMs, signal });
    return status.isShutDown
      ? new HorovodError('ERR_HVD_SHUT_DOWN', 'it was shut down a moment ago.')
      : undefined;
  } catch (error) {
    if (signal?.aborted) throw error;
    return error;
  }
}

function parse(json: unknown, source: string): TfDataServiceConfig {
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    throw unusable(`${source} is no config of a data service.`);
  const fields = json as Readonly<Record<string, unknown>>;
  if (fields['protocol'] !== protocol) {
    const theirs = fields['protocol'];
    const isPython = theirs === undefined && 'workers_per_dispatcher' in fields;
    const whose = isPython
      ? 'of Python Horovod, whose compute workers run tf.data'
      : `of the protocol ${JSON.stringify(theirs)}`;
    throw unusable(
      `${source} is ${whose}; this version understands ${protocol}. Start the service with \`horovod compute-worker\` of the same version.`,
    );
  }
  const given = keyOfEnvironment();
  const key = given?.revealForEnvironment() ?? fields['key'];
  if (key === undefined) {
    throw unusable(
      `${source} has no key: the compute job was started with HOROVOD_DATA_SERVICE_KEY. Set it to the same value here.`,
    );
  }
  try {
    return new TfDataServiceConfig({
      dispatchers: fields['dispatchers'] as number,
      workersPerDispatcher: fields['workers_per_dispatcher'] as number,
      dispatcherSide: fields['dispatcher_side'] as DispatcherSide,
      addresses: addressesOf(fields['addresses']),
      key: key as string,
      timeout: fields['timeout'] as number | undefined,
      incarnation: fields['incarnation'] as number | undefined,
    });
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    throw unusable(`${source}: ${error.detail}`, error);
  }
}

function addressesOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) throw invalid('addresses is missing');
  return Object.values(value)
    .flat()
    .map((pair: unknown) => {
      const [host, port] = Array.isArray(pair) ? pair : [];
      return `${String(host).includes(':') ? `[${host}]` : host}:${port}`;
    });
}

function keyOfEnvironment(): JobSecret | undefined {
  return readSettings(processEnvironment()).dataServiceKey;
}

function isAddress(text: unknown): boolean {
  return typeof text === 'string' && parseAddress(text) !== undefined;
}

function checkNumber(name: string, value: unknown, isNumber: (value: unknown) => boolean): void {
  if (!isNumber(value) || (value as number) <= 0)
    throw invalid(`${name} is a positive number, not ${JSON.stringify(value)}`);
}

function detailOf(error: unknown): string {
  return HorovodError.is(error) ? error.detail : String(error);
}

function invalid(text: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `TfDataServiceConfig: ${text}.`);
}

function unusable(text: string, cause?: unknown): HorovodError {
  return new HorovodError('ERR_HVD_DATA_SERVICE', text, { cause });
}
