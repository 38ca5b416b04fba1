import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { limitTensorFlowThreads } from '../../../settings/environment.ts';
import { type BackendName, setBackend } from './set-backend.ts';

const here = new URL('./set-backend.js', import.meta.url).href;

describe('setBackend', () => {
  test('wasm: returns the name, and again; TensorFlow.js of the script uses it', async () => {
    assert.equal(await setBackend('wasm'), 'wasm');
    const kernels = tf.getKernelsForBackend('wasm').map(({ kernelFunc }) => kernelFunc);
    assert.equal(await setBackend('wasm'), 'wasm');
    assert.deepEqual(
      tf.getKernelsForBackend('wasm').map(({ kernelFunc }) => kernelFunc),
      kernels,
    );
    assert.equal(tf.getBackend(), 'wasm');
  });

  test("the script's own tf.setBackend() keeps working, with our kernels", async () => {
    await tf.setBackend('cpu');
    await tf.setBackend('wasm');
    tf.tidy(() => {
      const image = tf.fill([1, 2, 2, 1], -3) as tf.Tensor4D;
      const gradient = tf.grad((x) => tf.maxPool(x as tf.Tensor4D, 2, 2, 'valid').sum())(image);
      assert.deepEqual([...gradient.dataSync()], [1, 0, 0, 0]);
    });
  });

  test('cpu, and back', async () => {
    assert.equal(await setBackend('cpu'), 'cpu');
    assert.equal(tf.getBackend(), 'cpu');
    assert.equal(await setBackend('wasm'), 'wasm');
  });

  test('rejects another number of threads while the backend runs', async () => {
    await setBackend('wasm');
    assert.equal(await setBackend('wasm', { threads: 1 }), 'wasm');
    await assert.rejects(setBackend('wasm', { threads: 3 }), /runs already, with 1 thread/);
  });

  test('rejects what is no backend and no number of threads', async () => {
    const isInvalid = (error: unknown) => HorovodError.is(error) && error.code === 'ERR_HVD_INVALID_ARGUMENT';
    await assert.rejects(setBackend('webgl' as BackendName), isInvalid);
    await assert.rejects(setBackend('wasm', { threads: 0 }), isInvalid);
    await assert.rejects(setBackend('wasm', { threads: 1.5 }), isInvalid);
    await assert.rejects(setBackend('wasm', { thread: 1 } as never), /no option thread/);
    await assert.rejects(setBackend('auto', { gpu: 'yes' } as never), isInvalid);
    await assert.rejects(setBackend('wasm', { gpu: true }), /backend wasm does not use a GPU/);
  });
});

test('threads of TensorFlow: what the user has set stays', () => {
  const env: NodeJS.ProcessEnv = { TF_NUM_INTRAOP_THREADS: '3' };
  limitTensorFlowThreads(1, env);
  assert.equal(env['TF_NUM_INTRAOP_THREADS'], '3');
  assert.equal(env['TF_NUM_INTEROP_THREADS'], '1');
});

describe('a process on wasm', () => {
  test('dies of an uncaught error and of a rejection as any other: exit code 1, its own stack', () => {
    for (const way of [
      "setImmediate(() => { throw new Error('boom') })",
      "Promise.reject(new Error('boom'))",
    ]) {
      const { status, stderr } = run(`await setBackend('wasm'); ${way}`);
      assert.equal(status, 1, stderr);
      assert.match(stderr, /Error: boom\n {4}at /);
      assert.doesNotMatch(stderr, /throw ex;|throw reason;/);
    }
  });

  test('prints no advertisement, on cpu neither, and other warnings as ever', () => {
    const { stdout, stderr, status } = run(
      "await setBackend('cpu'); tf.ones([2]).dataSync(); console.warn('mine'); await setBackend('wasm'); tf.ones([2])",
    );
    assert.equal(status, 0, stderr);
    assert.equal(stdout, '');
    assert.equal(stderr, 'mine\n');
  });

  test('computes with several threads, gives the same, and ends by itself', () => {
    const { stdout, stderr, status } = run(`
      await setBackend('wasm', { threads: 2 });
      const { getThreadsCount } = await import('@tensorflow/tfjs-backend-wasm');
      const x = tf.ones([64, 96]);
      const [dx] = tf.grads((a, b) => tf.matMul(a, b).sum())([x, tf.ones([96, 32])]);
      const image = tf.ones([2, 9, 9, 8]);
      const dw = tf.grad((w) => tf.conv2d(image, w, 1, 'valid').sum())(tf.ones([3, 3, 8, 4]));
      console.log(getThreadsCount(), dx.dataSync().every((v) => v === 32), dw.dataSync().every((v) => v === 98));`);
    assert.equal(status, 0, stderr);
    assert.equal(stdout, '2 true true\n');
    assert.equal(stderr, '');
  });
});

describe('packages of the tensorflow backend', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-backends-'));
  after(() => rmSync(folder, { recursive: true }));
  const stub = (name: string, text: string) => {
    const place = join(folder, name.slice(1).replaceAll('/', '-'), name);
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, 'index.js'), text);
    return join(folder, name.slice(1).replaceAll('/', '-'));
  };
  const tfjs = JSON.stringify(createRequire(import.meta.url).resolve('@tensorflow/tfjs'));
  /** Computes with the cpu backend, and says that it was loaded. */
  const working = (name: string) =>
    stub(
      name,
      `
    const tf = require(${tfjs});
    console.log('loaded ${name}');
    const Cpu = tf.findBackend('cpu').constructor;
    tf.registerBackend('tensorflow', () => new Cpu());
    tf.copyRegisteredKernels('cpu', 'tensorflow');`,
    );
  const gpu = working('@tensorflow/tfjs-node-gpu');
  const cpu = working('@tensorflow/tfjs-node');
  // Those of this checkout come first where they are installed.
  const skip = isInstalled('@tensorflow/tfjs-node') ? 'tfjs-node is installed here' : false;

  test('the one for GPUs comes first, and the other is never loaded beside it', { skip }, () => {
    for (const [places, options, loaded] of [
      [[gpu, cpu], '{}', 'gpu'],
      [[cpu], '{}', 'cpu'],
      [[gpu, cpu], '{ gpu: false }', 'cpu'],
      [[gpu, cpu], '{ gpu: true }', 'gpu'],
    ] as const) {
      for (const name of ['auto', 'tensorflow']) {
        const { stdout, stderr, status } = run(
          `await setBackend('cpu'); console.log(await setBackend('${name}', ${options}), tf.getBackend());`,
          { NODE_PATH: places.join(delimiter) },
        );
        assert.equal(status, 0, stderr);
        const packageName = loaded === 'gpu' ? '@tensorflow/tfjs-node-gpu' : '@tensorflow/tfjs-node';
        assert.equal(stdout, `loaded ${packageName}\ntensorflow tensorflow\n`, `${name}, ${options}`);
      }
    }
  });

  test('with gpu: true a missing package is an error, for auto too', { skip }, () => {
    for (const name of ['auto', 'tensorflow']) {
      const { stderr, status } = run(`await setBackend('${name}', { gpu: true })`, { NODE_PATH: cpu });
      assert.equal(status, 1);
      assert.match(
        stderr,
        /ERR_HVD_UNSUPPORTED.*the package @tensorflow\/tfjs-node-gpu is not installed\. Run npm install/,
      );
    }
  });

  test('auto goes on without one that does not load', { skip }, () => {
    const broken = stub('@tensorflow/tfjs-node-gpu', "throw new Error('no libtensorflow');");
    const { stdout, status } = run("console.log(await setBackend('auto'))", { NODE_PATH: broken });
    assert.equal(status, 0);
    assert.equal(stdout, 'wasm\n');
    working('@tensorflow/tfjs-node-gpu');
  });

  test('what the script has imported itself is used', { skip }, () => {
    const { stdout, stderr, status } = run(
      `await import(${JSON.stringify(pathToFileURL(join(cpu, '@tensorflow/tfjs-node/index.js')).href)});
      console.log(await setBackend('tensorflow'));`,
      { NODE_PATH: gpu },
    );
    assert.equal(status, 0, stderr);
    assert.equal(stdout, 'loaded @tensorflow/tfjs-node\ntensorflow\n');
  });
});

function isInstalled(name: string): boolean {
  try {
    return import.meta.resolve(name) !== '';
  } catch {
    return false;
  }
}

function run(
  script: string,
  env: NodeJS.ProcessEnv = {},
): { status: number | null; stdout: string; stderr: string } {
  const text = `import { setBackend } from '${here}'; import * as tf from '@tensorflow/tfjs'; ${script}`;
  const options = {
    encoding: 'utf8',
    timeout: 30_000,
    cwd: new URL('.', import.meta.url),
    env: { ...process.env, ...env },
  } as const;
  return spawnSync(process.execPath, ['--input-type=module', '--eval', text], options);
}
