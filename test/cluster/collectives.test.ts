// Collectives over the ranks of several hosts: every transport, several layouts of ranks over hosts, with and without
// hierarchy, and networks that mislead. The cases are in test/fixtures/cluster/hosts-cases.ts; Horovod's own cases run
// once on each transport. encrypted.test.ts runs the cases on 2 hosts × 2 ranks over tcp.

import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import { type Box, canUseBox, startBox } from '../support/box.ts';
import { type BoxJobOptions, clusterFixture, runOnBox, transportVariants } from '../support/box-jobs.ts';
import { reportCases } from '../support/case-jobs.ts';
import { fixturePath } from '../support/repository.ts';

const skip = canUseBox() ?? false;
const transports = transportVariants();
const flat = { HOROVOD_HIERARCHICAL_ALLREDUCE: '0', HOROVOD_HIERARCHICAL_ALLGATHER: '0' };

describe('collectives on three hosts', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 3, decoy: true, ipv6: true, secondSubnet: true });
  });
  after(() => box.close());

  const cases = async (t: TestContext, script: string, transport: string, options: BoxJobOptions) => {
    const job = await runOnBox(box, fixturePath(script), { ...options, timeoutMs: 240_000 });
    const list = script.replace(/\.ts$/, options.args === undefined ? '' : `-${options.args}`);
    await reportCases(t, job, { transport, cases: list });
    await box.assertNothingLeft();
  };

  for (const { transport, env, skip: why } of transports) {
    const layouts = [
      { title: '1, 3 and 2 ranks', hosts: 'host1:1,host2:3,host3:2' },
      ...(transport === 'portable' ? [{ title: '2 hosts × 2 ranks', hosts: 'host1:2,host2:2' }] : []),
    ];
    for (const { title, hosts } of layouts) {
      test(`${transport}: ${title}`, { skip: why }, (t) =>
        cases(t, 'cluster/hosts-cases.ts', transport, { hosts, env }),
      );
    }
    // Two ranks: with more, rounding depends on the order of summation, which between hosts is the transport's.
    test(`${transport}: Horovod's own cases, 2 hosts × 1 rank`, { skip: why }, (t) =>
      cases(t, 'core/horovod-cases.ts', transport, { hosts: 'host1:1,host2:1', env }),
    );
  }

  for (const { transport, env, skip: why } of transports.filter((each) => /tcp/.test(each.transport))) {
    test(`${transport}: 2 hosts × 2 ranks, not hierarchical`, { skip: why }, (t) =>
      cases(t, 'cluster/hosts-cases.ts', transport, {
        hosts: 'host1:2,host2:2',
        env: { ...env, ...flat },
      }),
    );
  }

  test('the launcher may run on a host without ranks', { skip: transports[0]?.skip ?? false }, (t) =>
    cases(t, 'cluster/hosts-cases.ts', 'tcp', { hosts: 'host2:1,host3:2', from: 'host1', args: ['brief'] }),
  );
});

describe('collectives on hosts that have IPv6 only', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 2, ipv6: 'only', decoy: true });
  });
  after(() => box.close());

  for (const { transport, env, skip: why } of transports.filter((each) =>
    /tcp|portable/.test(each.transport),
  )) {
    test(transport, { skip: why }, async (t) => {
      const job = await runOnBox(box, clusterFixture('hosts-cases.ts'), {
        hosts: 'host1:1,host2:2',
        args: ['brief'],
        env,
      });
      await reportCases(t, job, { transport, cases: 'cluster/hosts-cases-brief' });
      await box.assertNothingLeft();
    });
  }
});

describe('a crowd', { skip }, () => {
  test('64 ranks on 8 hosts', { skip: transports[0]?.skip ?? false }, async (t) => {
    await using box = await startBox({ hosts: 8 });
    const hosts = box.hosts.map((host) => `${host}:8`).join(',');
    const job = await runOnBox(box, clusterFixture('hosts-cases.ts'), {
      hosts,
      args: ['brief'],
      env: { HOROVOD_START_TIMEOUT: '120' },
      timeoutMs: 240_000,
    });
    assert.equal(job.ranks.length, 64);
    await reportCases(t, job, { transport: 'tcp', cases: 'cluster/hosts-cases-brief' });
    await box.assertNothingLeft();
  });
});
