// horovod/jax on two real ranks: test/fixtures/jax/jax-cases.ts has the cases. On the addon's transport, where it is built: the
// adapter knows nothing of transports.

import { describe, test } from 'node:test';
import { runCaseJob, type TransportVariant, transportVariants } from '../support/case-jobs.ts';

const variants = transportVariants();
const { title, env, transport, skip } = (variants.find((each) => each.skip === false) ??
  variants[0]) as TransportVariant;

describe(`jax-js, ${title}`, () => {
  test('2 ranks', { skip }, (t) => runCaseJob(t, 2, 'jax/jax-cases.ts', { transport, env }));
});
