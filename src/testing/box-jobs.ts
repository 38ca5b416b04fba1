// Jobs on hosts in a box: horovodrun started on one of them, with ranks on all. runOnBox() runs one to its end and gives
// what spawnRanks() gives; startOnBox() leaves it running, for a test that hurts the hosts meanwhile.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadNative } from '../native/load.ts';
import type { Box, BoxProcess, BoxResult } from './box.ts';
import { outputOfRanks, type SpawnRanksResult } from './spawn-ranks.ts';

export interface BoxJobOptions {
  /** As horovodrun's -H takes it: 'host1:2,host2:2'. */
  readonly hosts: string;
  /** Default: all slots. */
  readonly np?: number;
  /** Where horovodrun runs: host1. */
  readonly from?: string;
  /** Flags of horovodrun, besides -np and -H. */
  readonly flags?: readonly string[];
  /** Arguments of the script. */
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly timeoutMs?: number;
}

const launcher = fileURLToPath(new URL('../launch/main.js', import.meta.url));

/** A script below test/fixtures/cluster. */
export function clusterFixture(name: string): string {
  return fileURLToPath(new URL(`../../test/fixtures/cluster/${name}`, import.meta.url));
}

/** A script below examples. */
export function example(name: string): string {
  return fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
}

/** Starts `horovodrun -np … -H … script`, and leaves it to the caller. */
export function startOnBox(box: Box, script: string, options: BoxJobOptions): BoxProcess {
  const { hosts, from = 'host1', flags = [], args = [], env = {}, cwd } = options;
  const np = options.np ?? slots(hosts);
  const command = [launcher, '-np', String(np), '-H', hosts, ...flags, '--', script, ...args];
  return box.start(from, [process.execPath, ...command], {
    // Against hanging: a test that goes wrong must not wait for half an hour.
    env: { HOROVOD_TIMEOUT_SECONDS: '60', ...env },
    ...(cwd === undefined ? {} : { cwd }),
  });
}

/** Runs the same to its end, whatever its exit code. */
export async function runOnBox(box: Box, script: string, options: BoxJobOptions): Promise<SpawnRanksResult> {
  const started = startOnBox(box, script, options);
  const { exitCode, stdout, stderr } = await started.endedWithin(options.timeoutMs ?? 120_000);
  const np = options.np ?? slots(options.hosts);
  return { exitCode, signal: null, stdout, stderr, ranks: outputOfRanks(np, { stdout, stderr }) };
}

function slots(hosts: string): number {
  return hosts.split(',').reduce((sum, host) => sum + Number(host.split(':').at(-1)), 0);
}

/** Who moves the bytes between hosts: how to ask for it, and why it cannot be had here. */
export interface EngineVariant {
  readonly engine: 'tcp' | 'mpi' | 'gloo' | 'portable';
  readonly env: NodeJS.ProcessEnv;
  readonly skip: string | false;
}

export function engineVariants(): EngineVariant[] {
  const native = loadNative({ native: true });
  const withoutAddon = native.built ? false : native.reason;
  return [
    { engine: 'tcp', env: { HOROVOD_PLANE: 'tcp' }, skip: withoutAddon },
    { engine: 'mpi', env: { HOROVOD_PLANE: 'mpi' }, skip: withoutAddon || missing('mpi') },
    { engine: 'gloo', env: { HOROVOD_PLANE: 'gloo' }, skip: withoutAddon || missing('gloo') },
    { engine: 'portable', env: { HOROVOD_PLANE: 'portable' }, skip: false },
  ];
}

function missing(engine: 'mpi' | 'gloo'): string | false {
  const folder = fileURLToPath(new URL('../../native/build/', import.meta.url));
  const isBuilt = readdirSync(folder).some((name) => name.startsWith(`horovod-${engine}`));
  return isBuilt ? false : `the addon for ${engine} was not built`;
}

/** The job has failed, and its report says all of this. */
export function assertReports(result: BoxResult, ...patterns: readonly RegExp[]): void {
  const text = `--- stdout ---\n${result.stdout}\n--- stderr ---\n${result.stderr}`;
  assert.notEqual(result.exitCode, 0, text);
  for (const pattern of patterns) assert.match(result.stderr, pattern, text);
}
