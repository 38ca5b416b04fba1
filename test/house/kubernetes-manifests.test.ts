// The manifests in examples/kubernetes, checked without a cluster: each document becomes an object literal of the type
// that Kubernetes publishes for its kind, and the compiler finds wrong values as well as misspelt fields.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { repository } from '../support/repository.ts';

const root = repository;
const folder = join(root, 'examples/kubernetes');

/** Where the type of each kind comes from. */
const types: Readonly<Record<string, string>> = {
  'v1 Service': `import type { Service as Checked } from 'kubernetes-types/core/v1.js';`,
  'batch/v1 Job': `import type { Job as Checked } from 'kubernetes-types/batch/v1.js';`,
  // The operator publishes a schema, no types; these are the fields of its version v2beta1.
  'kubeflow.org/v2beta1 MPIJob': `
    import type { PodTemplateSpec } from 'kubernetes-types/core/v1.js';
    import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';
    interface ReplicaSpec {
      replicas?: number;
      restartPolicy?: 'Never' | 'OnFailure';
      template: PodTemplateSpec;
    }
    interface Checked {
      apiVersion: 'kubeflow.org/v2beta1';
      kind: 'MPIJob';
      metadata: ObjectMeta;
      spec: {
        slotsPerWorker?: number;
        runLauncherAsWorker?: boolean;
        launcherCreationPolicy?: 'AtStartup' | 'WaitForWorkersReady';
        mpiImplementation?: 'OpenMPI' | 'Intel' | 'MPICH';
        sshAuthMountPath?: string;
        runPolicy?: {
          cleanPodPolicy?: 'None' | 'Running' | 'All';
          ttlSecondsAfterFinished?: number;
          activeDeadlineSeconds?: number;
          backoffLimit?: number;
          suspend?: boolean;
        };
        mpiReplicaSpecs: { Launcher: ReplicaSpec; Worker: ReplicaSpec };
      };
    }`,
};

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
}

function documentsIn(file: string): Manifest[] {
  return parseAllDocuments(readFileSync(join(folder, file), 'utf8')).map((document) => {
    assert.deepEqual(document.errors, [], file);
    return document.toJS() as Manifest;
  });
}

/** What the compiler says about these documents; empty if nothing. */
function complaints(documents: readonly Manifest[]): string {
  // Inside the checkout, so that the compiler finds the types.
  mkdirSync(join(root, '.cache'), { recursive: true });
  const directory = mkdtempSync(join(root, '.cache/manifests-'));
  try {
    const files = documents.map((document, i) => {
      const type = types[`${document.apiVersion} ${document.kind}`];
      assert.ok(type !== undefined, `no type is known for ${document.apiVersion} ${document.kind}`);
      const path = join(directory, `document-${i}.ts`);
      writeFileSync(path, `${type}\nexport const document: Checked = ${JSON.stringify(document)};\n`);
      return path;
    });
    const options = ['--noEmit', '--strict', '--skipLibCheck', '--ignoreConfig', '--types', ''];
    const compiler = join(root, 'node_modules/typescript/bin/tsc');
    const modules = ['--module', 'nodenext', '--moduleResolution', 'nodenext', '--target', 'es2022'];
    const result = spawnSync(process.execPath, [compiler, ...options, ...modules, ...files], {
      encoding: 'utf8',
      timeout: 120_000,
    });
    assert.equal(result.error, undefined);
    return result.stdout + result.stderr;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

describe('manifests for Kubernetes', () => {
  test('are what the API of Kubernetes and the MPI Operator take', () => {
    const files = readdirSync(folder).filter((file) => file.endsWith('.yaml'));
    assert.ok(files.length >= 2, files.join());
    assert.equal(complaints(files.flatMap(documentsIn)), '');
  });

  test('a misspelt field and a wrong value are found', () => {
    const [, job] = documentsIn('indexed-job.yaml') as unknown as [unknown, { spec: object }];
    const misspelt = { ...job, spec: { ...job.spec, paralellism: 4 } };
    assert.match(complaints([misspelt as unknown as Manifest]), /paralellism/);
    const wrong = { ...job, spec: { ...job.spec, completions: 'four' } };
    assert.match(complaints([wrong as unknown as Manifest]), /not assignable to type 'number/);
  });

  test('say the same number of ranks everywhere', () => {
    const [, job] = documentsIn('indexed-job.yaml') as unknown as [unknown, IndexedJob];
    const { completions, parallelism, template } = job.spec;
    const size = template.spec.containers[0]?.env.find(({ name }) => name === 'HOROVOD_SIZE')?.value;
    assert.deepEqual([parallelism, Number(size)], [completions, completions]);
  });
});

interface IndexedJob {
  readonly spec: {
    readonly completions: number;
    readonly parallelism: number;
    readonly template: { spec: { containers: { env: { name: string; value?: string }[] }[] } };
  };
}
