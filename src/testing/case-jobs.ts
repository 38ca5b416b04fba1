// Jobs that run many small cases at once (test/fixtures/core/run-cases.mjs): each rank writes a line of JSON per
// case, and each case becomes a test of its own.

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { loadNative } from '../native/load.ts';
import type { SpawnRanksResult } from './spawn-ranks.ts';

/** A script below test/fixtures/core. */
export function coreFixture(name: string): string {
  return fileURLToPath(new URL(`../../test/fixtures/core/${name}`, import.meta.url));
}

/** A script below test/fixtures/training. */
export function trainingFixture(name: string): string {
  return fileURLToPath(new URL(`../../test/fixtures/training/${name}`, import.meta.url));
}

/** One way to run a job. */
export interface PlaneVariant {
  readonly title: string;
  /** For spawnRanks(). */
  readonly env: NodeJS.ProcessEnv;
  /** What planeName() says. */
  readonly plane: string;
  /** Why it cannot be run here. */
  readonly skip: string | false;
}

/** Both planes; a second run of all tests with HOROVOD_NATIVE=0 has nothing to add and skips them. */
export function planeVariants(): PlaneVariant[] {
  const native = loadNative({ native: true });
  const again = process.env['HOROVOD_NATIVE'] === '0' && 'both planes were tested without HOROVOD_NATIVE=0';
  return [
    {
      title: 'native',
      plane: 'shm',
      env: { HOROVOD_NATIVE: '1' },
      skip: again || (native.built ? false : native.reason),
    },
    { title: 'portable', plane: 'portable', env: { HOROVOD_NATIVE: '0' }, skip: again },
  ];
}

interface CaseLine {
  readonly name: string;
  readonly error?: string;
}

/** Every case of every rank must have passed; each is reported under its name. */
export async function reportCases(t: TestContext, job: SpawnRanksResult, plane: string): Promise<void> {
  const lines = job.ranks.map(({ stdout }) =>
    stdout
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as { plane?: string } & CaseLine),
  );
  await t.test('the ranks use the plane in question, run the same cases and end well', () => {
    assert.equal(job.exitCode, 0, `${job.stdout.slice(-4000)}\n${job.stderr}`);
    for (const [first, ...cases] of lines) {
      assert.equal(first?.plane, plane);
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
