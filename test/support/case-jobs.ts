// Jobs that run many small cases (test/fixtures/core/run-cases.ts): each rank writes a line of JSON per case, and each case is
// reported as a test. A text file beside the script lists the cases that the job must run, so that a case that is deleted, or
// skipped on all ranks, fails the test. HVD_UPDATE_CASES=1 writes these files.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { type SpawnRanksOptions, type SpawnRanksResult, spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import { fixturePath } from './repository.ts';

/** One way to run a job. */
export interface TransportVariant {
  readonly title: string;
  /** For spawnRanks(). */
  readonly env: NodeJS.ProcessEnv;
  /** The expected transportName(). */
  readonly transport: 'shm' | 'portable';
  /** Why it cannot run here. */
  readonly skip: string | false;
}

/** Both transports. They are skipped if all tests run a second time with HOROVOD_NATIVE=0, which would add nothing. */
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

/** The cases that a job must run, and its transport. */
export interface ExpectedCases {
  /** The expected transportName(). */
  readonly transport: string;
  /** The list of cases: test/fixtures/`cases`.cases.txt. */
  readonly cases: string;
}

export type CaseJobOptions = SpawnRanksOptions &
  Pick<ExpectedCases, 'transport'> & {
    /** Default: that of the script. */
    readonly cases?: string | undefined;
  };

/** Runs test/fixtures/`script` on `np` ranks and reports its cases. */
export async function runCaseJob(
  t: TestContext,
  np: number,
  script: string,
  options: CaseJobOptions,
): Promise<void> {
  const { transport, cases = script.replace(/\.ts$/, ''), env, ...rest } = options;
  const job = await spawnRanks(np, fixturePath(script), {
    timeoutMs: 240_000,
    ...rest,
    // A case in which a rank hangs should not take half an hour. Cases count warnings, and which rank is late depends on the machine.
    env: { HOROVOD_TIMEOUT_SECONDS: '60', HOROVOD_STRAGGLER_PERCENT: '0', ...env },
  });
  await reportCases(t, job, { transport, cases });
}

/** Each rank must have run and passed exactly the cases of the list. Each case is reported under its name. */
export async function reportCases(
  t: TestContext,
  job: SpawnRanksResult,
  { transport, cases }: ExpectedCases,
): Promise<void> {
  const ranks = job.ranks.map(({ stdout }) => linesOf(stdout));
  const names = ranks.map((lines) => lines.flatMap(({ name }) => name ?? []));
  if (process.env['HVD_UPDATE_CASES'] === '1')
    writeFileSync(fixturePath(`${cases}.cases.txt`), `${names[0]?.join('\n')}\n`);
  const expected = expectedCases(cases);

  await t.test('the ranks use the expected transport, run the listed cases and exit with 0', () => {
    assert.equal(job.exitCode, 0, `${job.stdout.slice(-4000)}\n${job.stderr}`);
    for (const [rank, lines] of ranks.entries()) {
      assert.equal(lines[0]?.transport, transport);
      assert.deepEqual(names[rank], expected, `rank ${rank} did not run what ${cases}.cases.txt lists`);
    }
  });
  for (const name of expected) {
    await t.test(name, () => {
      for (const [rank, lines] of ranks.entries()) {
        const line = lines.find((each) => each.name === name);
        assert.ok(line !== undefined, `rank ${rank} did not run it`);
        assert.equal(line.error, undefined, `rank ${rank}: ${line.error}`);
      }
    });
  }
}

/** The same for output that does not show which rank wrote a line: each case must have passed on `ranks` ranks. */
export function assertCasesPassed(stdout: string, ranks: number, cases: string): void {
  const lines = linesOf(stdout);
  assert.deepEqual(
    lines.filter(({ error }) => error !== undefined),
    [],
  );
  const expected = expectedCases(cases).flatMap((name) => new Array<string>(ranks).fill(name));
  assert.deepEqual(lines.flatMap(({ name }) => name ?? []).sort(), expected.sort());
}

/** The cases that test/fixtures/`cases`.cases.txt lists. */
function expectedCases(cases: string): string[] {
  return readFileSync(fixturePath(`${cases}.cases.txt`), 'utf8')
    .trimEnd()
    .split('\n');
}

/** The first line contains the transport, each other line a case. */
interface CaseLine {
  readonly transport?: string;
  readonly name?: string;
  readonly error?: string;
}

export function linesOf(stdout: string): CaseLine[] {
  return stdout
    .split(/\r?\n/)
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as CaseLine);
}
