// An ordinary script, without any handler for signals, hears of another rank's death before the launcher ends it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { fixturePath } from '../support/repository.ts';

const fixture = fixturePath('faults/mortal.ts');

for (const form of ['sync', 'promise']) {
  test(`every survivor of a killed rank gets its error before it is ended (${form})`, async () => {
    const job = await spawnRanks(3, fixture, { args: [form], timeoutMs: 60_000 });
    for (const rank of [0, 2]) {
      assert.match(job.ranks[rank]?.stdout ?? '', /caught ERR_HVD_PEER_LOST rank 1 SIGKILL/, job.stderr);
    }
    assert.equal(job.exitCode, 137);
  });
}
