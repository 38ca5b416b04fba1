// Two names of this machine are two hosts: what needs several, without root and without namespaces.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import { fixturePath } from '../support/repository.ts';

const fixture = (name: string) => fixturePath(`cluster/${name}`);
const flags = ['-H', 'localhost:2,127.0.0.1:2'];

for (const native of [true, false]) {
  const skip = native && !loadNative().built ? 'the native addon is not built' : false;
  describe(`ranks on two hosts, ${native ? 'native' : 'portable'}`, { skip }, () => {
    test('add and remove process sets at the same time', async () => {
      const job = await spawnRanks(4, fixture('process-sets-at-once.ts'), { flags, native });
      assert.equal(job.exitCode, 0, job.stdout + job.stderr);
      const transport = native ? 'tcp' : 'portable';
      assert.deepEqual(
        job.ranks.map(({ stdout }) => JSON.parse(stdout) as unknown),
        [
          [2, 3, null],
          [2, null, 2],
          [null, 3, null],
          [null, 3, 2],
        ].map((sums) => ({ transport, cross: 2, sums })),
      );
    });
  });
}
