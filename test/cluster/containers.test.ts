// A container around every rank, under mpirun on two hosts: with the process numbers of its host, as Apptainer can have it, ranks of
// a host share memory; with numbers or users of its own, as in Docker or Charliecloud, they find out that they cannot, and go over TCP.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Box, canUseBox, startBox } from '../support/box.ts';
import { clusterFixture } from '../support/box-jobs.ts';

const skip = canUseBox({ commands: ['mpirun.openmpi', 'bwrap'] }) ?? false;
const mpirun = [
  ...['mpirun.openmpi', '--allow-run-as-root', '--bind-to', 'none', '--oversubscribe'],
  ...['--mca', 'oob_tcp_if_include', 'eth0', '--mca', 'btl_tcp_if_include', 'eth0'],
  ...['-np', '4', '-H', 'host1:2,host2:2'],
];
const rank = [process.execPath, clusterFixture('who.ts')];

describe('ranks in containers', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 2 });
  });
  after(() => box.close());

  /** `says`: what the first rank warns of. */
  async function run(
    container: readonly string[],
    says?: RegExp,
  ): Promise<{ local: number[]; cross: number[] }[]> {
    const { exitCode, stdout, stderr } = await box.exec('host1', [...mpirun, ...container, ...rank]);
    assert.equal(exitCode, 0, stdout + stderr);
    const said = stdout.split('\n').flatMap((line) => /\{.*\}/.exec(line)?.[0] ?? []);
    const ranks = said.map((text) => JSON.parse(text) as Who).toSorted((a, b) => a.rank - b.rank);
    assert.deepEqual(
      ranks.map(({ sum, transport }) => [sum, transport]),
      Array(4).fill([10, 'tcp']),
    );
    if (says === undefined) assert.doesNotMatch(stderr, /are on one machine/);
    else assert.match(stderr, says);
    await box.assertNothingLeft();
    return ranks.map(({ local, cross }) => ({ local, cross }));
  }

  test('that share the process numbers of their host share its memory', async () => {
    assert.deepEqual(await run(['bwrap', '--dev-bind', '/', '/', '--die-with-parent']), [
      { local: [0, 2], cross: [0, 2] },
      { local: [1, 2], cross: [0, 2] },
      { local: [0, 2], cross: [1, 2] },
      { local: [1, 2], cross: [1, 2] },
    ]);
  });

  // The hosts of the box are one machine, too, if one can see that.
  for (const [what, flags, says] of [
    [
      'number their processes apart',
      ['--unshare-pid', '--proc', '/proc'],
      /ranks 0, 1(, 2, 3)? are on one machine.*process numbers of their own/,
    ],
    [
      'have users of their own',
      ['--unshare-user', '--uid', '0', '--gid', '0'],
      /ranks 0, 1(, 2, 3)? are on one machine.*users of their own/,
    ],
  ] as const) {
    test(`that ${what} are hosts of their own, and say so`, async () => {
      assert.deepEqual(
        await run(['bwrap', '--dev-bind', '/', '/', ...flags, '--die-with-parent'], says),
        [0, 1, 2, 3].map((number) => ({ local: [0, 1], cross: [number, 4] })),
      );
    });
  }
});

interface Who {
  readonly rank: number;
  readonly local: number[];
  readonly cross: number[];
  readonly sum: number;
  readonly transport: string;
}
