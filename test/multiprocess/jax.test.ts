// horovod/jax on two real ranks: test/fixtures/jax/jax-cases.ts has the cases. On the addon's transport, where it is built: the
// adapter knows nothing of transports.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { reportCases, type TransportVariant, transportVariants } from '../support/case-jobs.ts';
import { fixturePath } from '../support/repository.ts';

const fixture = fixturePath('jax/jax-cases.ts');
const variants = transportVariants();
const { title, env, transport, skip } = (variants.find((each) => each.skip === false) ??
  variants[0]) as TransportVariant;

describe(`jax-js, ${title}`, () => {
  test('2 ranks', { skip }, async (t) => {
    const limits = { HOROVOD_TIMEOUT_SECONDS: '60' };
    const job = await spawnRanks(2, fixture, { env: { ...env, ...limits }, timeoutMs: 240_000 });
    await reportCases(t, job, transport);
  });
});
