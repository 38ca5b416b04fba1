// Host discovery: a script (or a function of run()) that is asked for the hosts every second. At the start a list that cannot be had is an
// error of usage; later the last list stays, and a warning says so once.

import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import type { PlanHost } from '../../rendezvous/driver/plan.ts';
import { settingError } from '../../settings/setting.ts';
import { describe } from '../../tensor/tensor.ts';
import { hostName } from '../hosts/host-list.ts';
import type { HostSource } from './host-source.ts';

/** Finds the hosts there are now. Rejects with an Error that explains why it could not. */
export type HostFinder = () => Promise<readonly PlanHost[]>;

export interface DiscoveryOptions {
  readonly find: HostFinder;
  /** Called with each list before it is used. */
  readonly onFound?: ((hosts: readonly PlanHost[]) => Promise<void>) | undefined;
  readonly say: (text: string) => void;
  /** Between the end of one and the start of the next. */
  readonly everyMs?: number;
}

/** A script that takes longer is killed; a function that takes longer is asked again. */
const answerMs = 10_000;
const maxOutputBytes = 1024 * 1024;

export class HostDiscovery implements HostSource {
  readonly #options: DiscoveryOptions;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #problem: string | undefined;

  constructor(options: DiscoveryOptions) {
    this.#options = options;
  }

  async start(onHosts: (hosts: readonly PlanHost[]) => void): Promise<void> {
    let hosts: readonly PlanHost[];
    try {
      hosts = await this.#find();
    } catch (error) {
      throw settingError(`the hosts cannot be found: ${reasonOf(error)}.`);
    }
    onHosts(hosts);
    this.#again(onHosts);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #again(onHosts: (hosts: readonly PlanHost[]) => void): void {
    this.#timer = setTimeout(() => void this.#ask(onHosts), this.#options.everyMs ?? 1000);
  }

  async #ask(onHosts: (hosts: readonly PlanHost[]) => void): Promise<void> {
    try {
      const hosts = await this.#find();
      if (this.#problem !== undefined) this.#options.say('the hosts can be found again.');
      this.#problem = undefined;
      if (!this.#isStopped) onHosts(hosts);
    } catch (error) {
      const problem = reasonOf(error);
      if (problem !== this.#problem && !this.#isStopped)
        this.#options.say(`the hosts cannot be found, so the last list stays: ${problem}.`);
      this.#problem = problem;
    }
    if (!this.#isStopped) this.#again(onHosts);
  }

  async #find(): Promise<readonly PlanHost[]> {
    const hosts = await this.#options.find();
    await this.#options.onFound?.(hosts);
    return hosts;
  }
}

/** Runs a program; what it prints are the hosts. */
export function scriptFinder(path: string, slotsPerHost: number, timeoutMs: number = answerMs): HostFinder {
  return () =>
    new Promise((resolve, reject) => {
      const options = { timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: maxOutputBytes } as const;
      execFile(path, [], options, (error, stdout, stderr) => {
        if (error === null) {
          try {
            resolve(parseDiscovered(stdout, slotsPerHost, path));
          } catch (problem) {
            reject(problem);
          }
          return;
        }
        reject(new Error(describeFailure(path, error, stderr, timeoutMs)));
      });
    });
}

/** Asks a function of the program; what it returns are the hosts. */
export function functionFinder(
  discover: () => Promise<readonly PlanHost[]>,
  timeoutMs: number = answerMs,
): HostFinder {
  return async () => {
    const timer = new AbortController();
    const late = async (): Promise<never> => {
      await sleep(timeoutMs, undefined, { signal: timer.signal });
      throw new Error(`discover() did not answer within ${timeoutMs / 1000} s`);
    };
    try {
      return checkDiscovered(await Promise.race([discover(), late()]));
    } finally {
      timer.abort();
    }
  };
}

function checkDiscovered(found: unknown): PlanHost[] {
  if (!Array.isArray(found))
    throw new Error(`discover() returned ${describe(found)}, which is not a list of { name, slots }`);
  const hosts = new Map<string, number>();
  for (const each of found as readonly unknown[]) {
    const { name: given, slots } = (each ?? {}) as Partial<PlanHost>;
    const name = typeof given === 'string' ? hostName(given) : undefined;
    if (name === undefined || !Number.isSafeInteger(slots) || (slots as number) < 0)
      throw new Error(
        `discover() returned ${inspect(each, { depth: 1, breakLength: Number.POSITIVE_INFINITY }).slice(0, 80)}, which is not { name, slots }`,
      );
    addHost(hosts, name, slots as number, 'discover() returned');
  }
  return listOf(hosts);
}

/** `HOST` or `HOST:SLOTS` per line; blank lines, comments (#) and repeated lines are allowed. */
export function parseDiscovered(text: string, slotsPerHost: number, source: string): PlanHost[] {
  const hosts = new Map<string, number>();
  for (const line of text.split('\n')) {
    const content = line.replace(/#.*/, '').trim();
    if (content === '') continue;
    const match = /^(\[[^\]]*\]|[^:]+)(?::(\d+))?$/.exec(content);
    const name = hostName(match?.[1] ?? '');
    if (match === null || name === undefined)
      throw new Error(
        `${source} printed ${JSON.stringify(content.slice(0, 80))}, which is not HOST or HOST:SLOTS`,
      );
    addHost(hosts, name, match[2] === undefined ? slotsPerHost : Number(match[2]), `${source} printed`);
  }
  return listOf(hosts);
}

function addHost(hosts: Map<string, number>, name: string, slots: number, what: string): void {
  const before = hosts.get(name);
  if (before !== undefined && before !== slots)
    throw new Error(`${what} ${name} with ${before} and with ${slots} slots`);
  hosts.set(name, slots);
}

function listOf(hosts: ReadonlyMap<string, number>): PlanHost[] {
  return [...hosts].map(([name, slots]) => ({ name, slots })).filter(({ slots }) => slots > 0);
}

/** The function is the user's, and may throw anything. */
function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : inspect(error)).replace(/\.$/, '');
}

interface ScriptError extends Error {
  readonly code?: string | number | null | undefined;
  readonly signal?: NodeJS.Signals | null | undefined;
  readonly killed?: boolean | undefined;
}

function describeFailure(path: string, error: ScriptError, stderr: string, timeoutMs: number): string {
  const lastLine = stderr.trim().split('\n').at(-1) ?? '';
  const said = lastLine === '' ? '' : ` (${lastLine.slice(0, 200)})`;
  if (error.code === 'ENOENT') return `${path} was not found`;
  if (error.code === 'EACCES') return `${path} is not executable`;
  if (error.code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER')
    return `${path} printed more than ${maxOutputBytes} bytes`;
  if (error.killed) return `${path} did not end within ${timeoutMs / 1000} s`;
  if (error.signal) return `${path} was killed by ${error.signal}`;
  return `${path} exited with code ${error.code}${said}`;
}
