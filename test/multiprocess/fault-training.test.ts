// A rank dies in the middle of model.fit(): fit() of the others ends with an error that says who, and of what.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { fixturePath } from '../support/repository.ts';

const fixture = fixturePath('faults/training.ts');

describe('a rank is killed while it trains', () => {
  for (const overlap of ['never', 'always']) {
    for (const where of ['loss', 'backward', 'callback']) {
      test(`in its ${where}, overlap ${overlap}`, async () => {
        const job = await spawnRanks(2, fixture, {
          args: [where],
          env: { HOROVOD_OVERLAP: overlap, HOROVOD_BUCKET_BYTES: '8192', HOROVOD_TIMEOUT_SECONDS: '60' },
        });
        assert.match(job.ranks[0]?.stdout ?? '', /^caught ERR_HVD_PEER_LOST rank 1 SIGKILL after (19|20)$/m);
        assert.match(job.stderr, /rank 1 .*SIGKILL/);
        assert.notEqual(job.exitCode, 0);
      });
    }
  }
});
