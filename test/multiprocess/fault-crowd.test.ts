// More ranks than cores: nobody spins the others to death. Real processes, started as spawnRanks() does; CI runs this
// file with both transports. There is no judgement of time, but for the deadline of the helper against hanging.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFaultJob } from '../support/fault-job.ts';

for (const np of [4, 8]) {
  test(`${np} ranks finish a mixed workload, whatever the number of cores`, async (t) => {
    const job = startFaultJob(t, np, 'mixed.ts');
    for (let rank = 0; rank < np; rank++) assert.equal((await job.said(rank, 'value')).value, 'finished');
    assert.equal((await job.ended()).exitCode, 0, job.run.stderr);
  });
}
