import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
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

function run(script: string): { status: number | null; stdout: string; stderr: string } {
  const text = `import { setBackend } from '${here}'; import * as tf from '@tensorflow/tfjs'; ${script}`;
  const options = { encoding: 'utf8', timeout: 30_000, cwd: new URL('.', import.meta.url) } as const;
  return spawnSync(process.execPath, ['--input-type=module', '--eval', text], options);
}
