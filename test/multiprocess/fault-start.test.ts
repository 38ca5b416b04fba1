// A rank ends in the middle of init(), on one of two hosts, at each stage of it: all others end at once with the same
// error, long before --start-timeout, and close what they have opened so far.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { loadNative } from '../../src/transport/native/load.ts';
import { startFaultJob } from '../support/fault-job.ts';

const flags = ['-H', 'localhost:2,127.0.0.1:2', '--start-timeout', '50'];

interface Case {
  readonly stage: 'introduction' | 'controlBlock' | 'watch' | 'mesh' | 'admission';
  /** 0 and 2 are the first ranks of their hosts. */
  readonly victim: number;
  readonly how: 'kill' | 'throw';
}

const cases: Record<'native' | 'portable', readonly Case[]> = {
  native: [
    { stage: 'introduction', victim: 3, how: 'throw' },
    { stage: 'controlBlock', victim: 2, how: 'throw' },
    { stage: 'watch', victim: 0, how: 'kill' },
    { stage: 'mesh', victim: 3, how: 'kill' },
    { stage: 'mesh', victim: 2, how: 'throw' },
    { stage: 'admission', victim: 1, how: 'kill' },
  ],
  portable: [
    { stage: 'watch', victim: 2, how: 'throw' },
    { stage: 'mesh', victim: 1, how: 'kill' },
    { stage: 'admission', victim: 3, how: 'kill' },
  ],
};

for (const transport of ['native', 'portable'] as const) {
  const skip = transport === 'native' && !loadNative().built ? 'the native addon is not built' : false;
  describe(`a start on two hosts, ${transport}`, { skip }, () => {
    for (const { stage, victim, how } of cases[transport]) {
      const what = how === 'kill' ? 'is killed' : 'fails';
      test(`rank ${victim} ${what} at the stage "${stage}": the others get the error`, async (t) => {
        const env = { HOROVOD_NATIVE: transport === 'native' ? '1' : '0' };
        const directory = mkdtempSync(join(tmpdir(), 'horovod-start-'));
        t.after(() => rmSync(directory, { recursive: true, force: true }));
        const args = [stage, String(victim), how, directory];
        const job = startFaultJob(t, 4, 'start-stage.ts', { args, flags, env });
        const told = [0, 1, 2, 3].filter((rank) => rank !== victim || how === 'throw');
        await job.allSaid([0, 1, 2, 3], 'ready');
        for (const rank of told) {
          const { code, message, rank: blamed } = await job.said(rank, 'caught');
          if (rank !== victim) {
            const expected = how === 'kill' ? 'ERR_HVD_PEER_LOST' : 'ERR_HVD_RENDEZVOUS';
            assert.deepEqual([code, blamed], [expected, victim], `rank ${rank}: ${message}`);
          }
          assert.equal((await job.said(rank, 'left')).value, 0, `rank ${rank} has left something open`);
        }
        await job.ended();
      });
    }
  });
}
