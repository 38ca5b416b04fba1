import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

const backend = new URL('./', import.meta.url).href;
const context = new URL('../../../context/default/default-context.js', import.meta.url).href;

/** What pinGpu() does in a rank; resolves to its output. */
function pin(visible: string | undefined, before = ''): { stdout: string; stderr: string } {
  const text = `
    import { pinGpu } from '${backend}pin-gpu.js';
    import * as tf from '@tensorflow/tfjs';
    import { init, shutdown } from '${context}';
    ${before}
    await init();
    try { console.log(pinGpu(), process.env.CUDA_VISIBLE_DEVICES); } finally { await shutdown(); }`;
  const { CUDA_VISIBLE_DEVICES: _, ...env } = process.env;
  return spawnSync(process.execPath, ['--input-type=module', '--eval', text], {
    encoding: 'utf8',
    timeout: 30_000,
    cwd: new URL('.', import.meta.url),
    env: visible === undefined ? env : { ...env, CUDA_VISIBLE_DEVICES: visible },
  });
}

test('a rank sees the GPU of its place on the host, out of those that were visible', () => {
  assert.equal(pin(undefined).stdout, '0 0\n');
  assert.equal(pin('4,6').stdout, '4 4\n');
});

test('what already names one GPU stays', () => {
  assert.equal(pin('7').stdout, '7 7\n');
  assert.equal(pin('GPU-5f,-1,3').stdout, 'GPU-5f GPU-5f,-1,3\n');
});

test('an empty list is an error that names pinGpu(), and so is a backend that runs already', () => {
  assert.match(pin('').stderr, /ERR_HVD_SETTING: pinGpu\(\): CUDA_VISIBLE_DEVICES="" lists 0 GPUs/);
  const running =
    "tf.registerBackend('tensorflow', () => tf.findBackend('cpu')); tf.findBackend('tensorflow');";
  assert.match(pin(undefined, running).stderr, /Call pinGpu\(\) after init\(\) and before setBackend\(\)/);
});
