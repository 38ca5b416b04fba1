import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorOf } from '../../../test/support/error-of.ts';
import { checkVersions, ownBuild } from './check-versions.ts';

const on = (hostname: string, version = '1.2.0', layout = 2) => ({ hostname, version, layout });
const failureOf = (builds: Parameters<typeof checkVersions>[0], ranks: readonly number[]) =>
  errorOf(Promise.resolve().then(() => checkVersions(builds, ranks)));

test('ranks of one build pass', () => {
  checkVersions([on('a'), on('a'), on('b')], [0, 1, 2]);
  const own = { hostname: 'a', ...ownBuild() };
  checkVersions([own, own], [0, 1]);
  assert.match(own.version, /^\d+\.\d+\.\d+/);
});

test('two versions of the package are an error that names both, and both hosts', async () => {
  const error = await failureOf([on('a'), on('a'), on('b', '1.1.0')], [0, 3, 5]);
  assert.equal(error.code, 'ERR_HVD_VERSION');
  assert.equal(error.rank, 5);
  assert.match(
    error.message,
    /rank 0 on a runs horovod 1\.2\.0 \(memory layout 2\), but rank 5 on b runs horovod 1\.1\.0 \(memory layout 2\)/,
  );
});

test('two builds of one version with different layouts of shared memory are an error, also on one host', async () => {
  const error = await failureOf([on('a'), on('a', '1.2.0', 3)], [0, 1]);
  assert.equal(error.code, 'ERR_HVD_VERSION');
  assert.match(error.message, /rank 1 on a runs horovod 1\.2\.0 \(memory layout 3\)/);
});
