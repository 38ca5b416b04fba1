// Jobs that run many small cases at once (test/fixtures/core/run-cases.ts): each rank writes a line of JSON per
// case, and each case becomes a test of its own.

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { SpawnRanksResult } from '../../src/testing/spawn-ranks.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import { fixturePath } from './repository.ts';

/** A script below test/fixtures/core. */
export function coreFixture(name: string): string {
  return fixturePath(`core/${name}`);
}

/** A script below test/fixtures/training. */
export function trainingFixture(name: string): string {
  return fixturePath(`training/${name}`);
}

/** One way to run a job. */
export interface TransportVariant {
  readonly title: string;
  /** For spawnRanks(). */
  readonly env: NodeJS.ProcessEnv;
  /** What transportName() says. */
  readonly transport: string;
  /** Why it cannot be run here. */
  readonly skip: string | false;
}

/** Both transports; a second run of all tests with HOROVOD_NATIVE=0 has nothing to add and skips them. */
export function transportVariants(): TransportVariant[] {
  const native = loadNative({ native: true });
  const again =
    process.env['HOROVOD_NATIVE'] === '0' && 'both transports were tested without HOROVOD_NATIVE=0';
  return [
    {
      title: 'native',
      transport: 'shm',
      env: { HOROVOD_NATIVE: '1' },
      skip: again || (native.built ? false : native.reason),
    },
    { title: 'portable', transport: 'portable', env: { HOROVOD_NATIVE: '0' }, skip: again },
  ];
}

interface CaseLine {
  readonly name: string;
  readonly error?: string;
}

/** Every case of every rank must have passed; each is reported under its name. */
export async function reportCases(t: TestContext, job: SpawnRanksResult, transport: string): Promise<void> {
  const lines = job.ranks.map(({ stdout }) =>
    stdout
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as { transport?: string } & CaseLine),
  );
  await t.test('the ranks use the transport in question, run the same cases and end well', () => {
    assert.equal(job.exitCode, 0, `${job.stdout.slice(-4000)}\n${job.stderr}`);
    for (const [first, ...cases] of lines) {
      assert.equal(first?.transport, transport);
      assert.ok(cases.length > 0);
      assert.deepEqual(
        cases.map(({ name }) => name),
        lines[0]?.slice(1).map(({ name }) => name),
      );
    }
  });
  for (const [place, { name }] of (lines[0]?.slice(1) ?? []).entries()) {
    await t.test(name, () => {
      const failures = lines.flatMap((cases, rank) => {
        const error = cases[place + 1]?.error;
        return error === undefined ? [] : [`rank ${rank}: ${error}`];
      });
      assert.equal(failures.join('\n'), '');
    });
  }
}
