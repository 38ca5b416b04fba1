// Jobs on hosts in a box: horovodrun runs on one host and starts ranks on all. runOnBox() waits for the end of the job and returns
// the same result as spawnRanks(). startOnBox() returns while the job runs, for tests that inject faults.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { outputOfRanks, type SpawnRanksResult } from '../../src/testing/spawn-ranks.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import type { Box, BoxProcess, BoxResult } from './box.ts';
import { fixturePath, repository } from './repository.ts';

export interface BoxJobOptions {
  /** As horovodrun's -H takes it: 'host1:2,host2:2'. */
  readonly hosts: string;
  /** Default: all slots. */
  readonly np?: number;
  /** Where horovodrun runs. Default: host1. */
  readonly from?: string;
  /** Flags of horovodrun, besides -np and -H. */
  readonly flags?: readonly string[];
  /** Arguments of the script. */
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly timeoutMs?: number;
}

const launcher = join(repository, 'dist/launch/main.js');

/** A script below test/fixtures/cluster. */
export function clusterFixture(name: string): string {
  return fixturePath(`cluster/${name}`);
}

/** A script below examples. */
export function example(name: string): string {
  return join(repository, `examples/${name}`);
}

/** Starts `horovodrun -np … -H … script`. The caller waits for it. */
export function startOnBox(box: Box, script: string, options: BoxJobOptions): BoxProcess {
  const { hosts, from = 'host1', flags = [], args = [], env = {}, cwd } = options;
  const np = options.np ?? slots(hosts);
  const command = [launcher, '-np', String(np), '-H', hosts, ...flags, '--', script, ...args];
  return box.start(from, [process.execPath, ...command], {
    // Only for jobs that hang: a failing test should not take half an hour.
    env: { HOROVOD_TIMEOUT_SECONDS: '60', ...env },
    ...(cwd === undefined ? {} : { cwd }),
  });
}

/** Runs the same command to its end, whatever its exit code. */
export async function runOnBox(box: Box, script: string, options: BoxJobOptions): Promise<SpawnRanksResult> {
  const started = startOnBox(box, script, options);
  const { exitCode, stdout, stderr } = await started.endedWithin(options.timeoutMs ?? 120_000);
  const np = options.np ?? slots(options.hosts);
  return { exitCode, signal: null, stdout, stderr, ranks: outputOfRanks(np, { stdout, stderr }) };
}

function slots(hosts: string): number {
  return hosts.split(',').reduce((sum, host) => sum + Number(host.split(':').at(-1)), 0);
}

/** Transports between hosts: the settings that select one, and why it is not available here. */
export interface TransportVariant {
  readonly transport: 'tcp' | 'mpi' | 'gloo' | 'portable';
  readonly env: NodeJS.ProcessEnv;
  readonly skip: string | false;
}

export function transportVariants(): TransportVariant[] {
  const native = loadNative({ native: true });
  const withoutAddon = native.built ? false : native.reason;
  return [
    { transport: 'tcp', env: { HOROVOD_TRANSPORT: 'tcp' }, skip: withoutAddon },
    { transport: 'mpi', env: { HOROVOD_TRANSPORT: 'mpi' }, skip: withoutAddon || missing('mpi') },
    { transport: 'gloo', env: { HOROVOD_TRANSPORT: 'gloo' }, skip: withoutAddon || missing('gloo') },
    { transport: 'portable', env: { HOROVOD_TRANSPORT: 'portable' }, skip: false },
  ];
}

function missing(transport: 'mpi' | 'gloo'): string | false {
  const folder = join(repository, 'native/build/');
  const isBuilt = readdirSync(folder).some((name) => name.startsWith(`horovod-${transport}`));
  return isBuilt ? false : `the addon for ${transport} was not built`;
}

/** Fails unless the job has failed and its report contains all of this. */
export function assertReports(result: BoxResult, ...patterns: readonly RegExp[]): void {
  const text = `--- stdout ---\n${result.stdout}\n--- stderr ---\n${result.stderr}`;
  assert.notEqual(result.exitCode, 0, text);
  for (const pattern of patterns) assert.match(result.stderr, pattern, text);
}
