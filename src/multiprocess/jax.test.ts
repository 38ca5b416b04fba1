// horovod/jax on two real ranks: test/fixtures/jax/jax-cases.mjs has the cases. On the addon's plane, where it is built: the
// adapter knows nothing of planes.

import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type PlaneVariant, planeVariants, reportCases } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

const fixture = fileURLToPath(new URL('../../test/fixtures/jax/jax-cases.mjs', import.meta.url));
const variants = planeVariants();
const { title, env, plane, skip } = (variants.find((each) => each.skip === false) ??
  variants[0]) as PlaneVariant;

describe(`jax-js, ${title}`, () => {
  test('2 ranks', { skip }, async (t) => {
    const limits = { HOROVOD_TIMEOUT_SECONDS: '60' };
    const job = await spawnRanks(2, fixture, { env: { ...env, ...limits }, timeoutMs: 240_000 });
    await reportCases(t, job, plane);
  });
});
