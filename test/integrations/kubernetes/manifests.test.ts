// The manifests in examples/kubernetes against the schemas that Kubernetes publishes of its API, which the Python package
// kubernetes-validate ships. It has none of the MPI Operator: of an MPIJob, the pods are checked here, and its own fields in
// test/house/kubernetes-manifests.test.ts.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { repository } from '../../support/repository.ts';

const python = process.env['HVD_TEST_PYTHON'];
const skip = python === undefined && 'no HVD_TEST_PYTHON (npm test -- --only integrations sets it)';
const folder = join(repository, 'examples/kubernetes');

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: Record<string, unknown> & {
    readonly mpiReplicaSpecs?: Readonly<Record<string, { readonly template: object }>>;
  };
}

const manifests = readdirSync(folder).flatMap((file) =>
  parseAllDocuments(readFileSync(join(folder, file), 'utf8')).map((each) => each.toJS() as Manifest),
);

/** What the schemas of Kubernetes know of a manifest. */
function known(manifest: Manifest): object[] {
  if (manifest.kind !== 'MPIJob') return [manifest];
  return Object.entries(manifest.spec.mpiReplicaSpecs ?? {}).map(([name, { template }]) => ({
    apiVersion: 'v1',
    kind: 'PodTemplate',
    metadata: { name: name.toLowerCase() },
    template,
  }));
}

/** Strictly: with an error for fields that the schema does not have. */
function validate(objects: readonly object[]): { readonly status: number | null; readonly said: string } {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-manifests-'));
  try {
    const files = objects.map((object, i) => {
      const path = join(directory, `${i}.json`);
      writeFileSync(path, JSON.stringify(object));
      return path;
    });
    const args = ['-m', 'kubernetes_validate', '--strict', ...files];
    const result = spawnSync(python as string, args, { encoding: 'utf8', timeout: 60_000 });
    assert.equal(result.error, undefined);
    return { status: result.status, said: result.stdout + result.stderr };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

describe('manifests', { skip }, () => {
  test('pass the schemas of Kubernetes', () => {
    const objects = manifests.flatMap(known);
    assert.ok(objects.length >= 6, `${objects.length}`);
    const { status, said } = validate(objects);
    assert.equal(status, 0, said);
    assert.equal(said.match(/ passed for resource /g)?.length, objects.length, said);
  });

  test('a misspelt field and a wrong value are found', () => {
    const job = manifests.find(({ kind }) => kind === 'Job') as Manifest;
    for (const [field, value] of [
      ['paralellism', 4],
      ['completions', 'four'],
    ] as const) {
      const { status, said } = validate([{ ...job, spec: { ...job.spec, [field]: value } }]);
      assert.notEqual(status, 0, said);
      assert.match(said, new RegExp(field));
    }
  });
});
