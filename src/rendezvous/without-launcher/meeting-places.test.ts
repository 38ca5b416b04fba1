// Where ranks without horovodrun meet, and with which secret: what follows from the environments of launchers.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import { errorOf } from '../../../test/support/error-of.ts';
import { formatAddress, isLoopback } from '../../net/addresses.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { meetingPlace, type NoticedPlace } from './meeting-places.ts';

const openMpi = (rank: number, localSize: number, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  OMPI_COMM_WORLD_RANK: String(rank),
  OMPI_COMM_WORLD_SIZE: '4',
  OMPI_COMM_WORLD_LOCAL_RANK: String(rank % localSize),
  OMPI_COMM_WORLD_LOCAL_SIZE: String(localSize),
  OMPI_MCA_orte_hnp_uri: '1.0;tcp://127.0.0.1,10.0.0.1:5678',
  OMPI_MCA_orte_node_regex: 'host[1:1-2]@0(2)',
  PMIX_NAMESPACE: '4711',
  ...more,
});
const randomKey = { OMPI_MCA_orte_precondition_transports: '0123456789abcdef-fedcba9876543210' };

const slurm = (rank: number, nodes: string, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  SLURM_PROCID: String(rank),
  SLURM_STEP_NUM_TASKS: '4',
  SLURM_JOB_ID: '7',
  SLURM_STEP_ID: '0',
  SLURM_STEP_NODELIST: nodes,
  SLURM_LAUNCH_NODE_IPADDR: '127.0.0.1',
  ...more,
});

const meet = (rank: number, address: string, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  HOROVOD_RENDEZVOUS: address,
  HOROVOD_RANK: String(rank),
  HOROVOD_SIZE: '2',
  ...more,
});

async function placeOf(environment: NodeJS.ProcessEnv): Promise<NoticedPlace> {
  const settings = readSettings(environment);
  const { launcher } = settings;
  assert.ok(launcher.kind === 'open-mpi' || launcher.kind === 'slurm' || launcher.kind === 'rendezvous');
  return meetingPlace(launcher, settings);
}

const nameOf = ({ secret }: NoticedPlace) => secret.hmac('compare').toString('hex');
const hostsOf = ({ candidates }: NoticedPlace) => [...new Set(candidates.map(({ host }) => host))];

const home = mkdtempSync(join(tmpdir(), 'hvd-home-'));
const homeOfTests = process.env['HOME'];
beforeEach(() => {
  process.env['HOME'] = home;
});
afterEach(() => {
  process.env['HOME'] = homeOfTests;
});
after(() => rmSync(home, { recursive: true }));
const withoutHome = () => {
  process.env['HOME'] = '/nonexistent';
};

describe('ranks on several hosts', () => {
  test('try no loopback address, whatever the launcher says', async () => {
    for (const environment of [openMpi(1, 2, randomKey), openMpi(2, 2, randomKey), slurm(3, 'host[1-2]')]) {
      const place = await placeOf(environment);
      assert.equal(place.listenOn, 'all');
      assert.deepEqual(hostsOf(place).filter(isLoopback), []);
      assert.ok(hostsOf(place).includes('host1'));
      const signs = place.signpost?.addresses.map(formatAddress) ?? [];
      assert.deepEqual(
        signs.filter((address) => isLoopback(address)),
        [],
      );
    }
  });

  test('use the random key of mpirun, the same on all of them', async () => {
    const [first, second] = [
      await placeOf(openMpi(0, 2, randomKey)),
      await placeOf(openMpi(2, 2, randomKey)),
    ];
    assert.equal(nameOf(first), nameOf(second));
    assert.equal(first.notice, undefined);
    assert.notEqual(nameOf(first), nameOf(await placeOf(openMpi(0, 2))));
  });

  test('use the key in the home directory where the launcher gives none, another secret for each job', async () => {
    const [first, second] = [await placeOf(slurm(0, 'host[1-2]')), await placeOf(slurm(1, 'host[1-2]'))];
    assert.equal(nameOf(first), nameOf(second));
    assert.equal(first.notice, undefined);
    assert.match(first.advice, /do not share the home directory, set HOROVOD_SECRET_KEY/);
    const later = await placeOf(slurm(0, 'host[1-2]', { SLURM_STEP_ID: '1' }));
    assert.notEqual(nameOf(first), nameOf(later));
  });

  test('are rejected without a secret, with what to do about it', async () => {
    withoutHome();
    for (const environment of [
      slurm(1, 'host[1-2]'),
      openMpi(1, 2),
      meet(0, 'host1:7000'),
      meet(1, '10.0.0.1:7000'),
    ]) {
      const error = await errorOf(placeOf(environment));
      assert.equal(error.code, 'ERR_HVD_SETTING');
      assert.match(
        error.message,
        /no secret .* Set HOROVOD_SECRET_KEY .*openssl rand -hex 32.*HOROVOD_ALLOW_INSECURE=1/,
      );
    }
  });

  test('meet at an address with a secret of the user, and never with the key in the home directory', async () => {
    const key = { HOROVOD_SECRET_KEY: 'a'.repeat(64) };
    assert.equal((await placeOf(meet(0, 'host1:7000', key))).notice, undefined);
    const error = await errorOf(placeOf(meet(0, 'host1:7000')));
    assert.equal(error.code, 'ERR_HVD_SETTING');
  });

  test('go on without a secret if the user says so, with a warning', async () => {
    withoutHome();
    const insecure = { HOROVOD_ALLOW_INSECURE: '1' };
    for (const environment of [
      slurm(0, 'host[1-2]', insecure),
      openMpi(0, 2, insecure),
      meet(0, 'host1:7000', insecure),
    ])
      assert.match((await placeOf(environment)).notice ?? '', /everybody who can reach the ports/);
  });

  test('of which nothing says where rank 0 may be get an error that says so', async () => {
    const nothing = { OMPI_MCA_orte_hnp_uri: '', OMPI_MCA_orte_node_regex: '' };
    const error = await errorOf(placeOf(openMpi(1, 2, { ...nothing, ...randomKey })));
    assert.match(
      error.message,
      /does not say where rank 0 may be\. To say where the ranks meet, set HOROVOD_RENDEZVOUS/,
    );
  });
});

describe('ranks on one host', () => {
  test('meet at loopback only', async () => {
    for (const environment of [openMpi(1, 4), slurm(1, 'host1')]) {
      const place = await placeOf(environment);
      assert.equal(place.listenOn, 'loopback');
      assert.deepEqual(hostsOf(place), ['127.0.0.1']);
      assert.equal(place.signpost, undefined);
      assert.equal(place.notice, undefined);
    }
  });

  test('need no setting, not even a home directory, and get a warning that others may join then', async () => {
    withoutHome();
    for (const environment of [
      openMpi(0, 4),
      slurm(0, 'host1'),
      meet(0, '127.0.0.1:7000'),
      meet(0, 'localhost:7000'),
    ])
      assert.match(
        (await placeOf(environment)).notice ?? '',
        /derived from public data, because .*HOROVOD_SECRET_KEY/,
      );
  });
});
