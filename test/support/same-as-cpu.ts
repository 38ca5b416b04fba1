// Compares kernels of the WASM backend with those of the cpu backend. Kernels are called as other kernels call them, with
// TensorInfos that are not tensors.

import assert from 'node:assert/strict';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import {
  type KernelSetName,
  useKernelSet,
} from '../../src/adapters/tensorflow/backend/wasm/compiled-kernels.ts';
import type {
  Attributes,
  Kernel,
  WasmBackend,
  WasmModule,
} from '../../src/adapters/tensorflow/backend/wasm/kernel.ts';
import { floats } from '../../src/adapters/tensorflow/backend/wasm/kernel.ts';

type Values = Float32Array | Int32Array;

interface Input {
  readonly shape: readonly number[];
  readonly values: Values;
}

/** A set of compiled kernels; or `plain`: without them, as in the threaded build. */
export type Kind = KernelSetName | 'plain';

const sets: readonly KernelSetName[] = ['wasm', 'baseline', 'avx2', 'avx512', 'neon'];

/** The kinds that this processor has; the baseline only if it has nothing better. Call it when the backend runs. */
export function kinds(): Kind[] {
  const found = sets.filter((set) => useKernelSet(theBackend(), set));
  return [...found.filter((set) => set !== 'baseline' || found.length === 2), 'plain'];
}

/** Relative to the largest value of a result. */
const tolerance = 2e-5;

export const seeds: fc.Arbitrary<number> = fc.integer({ min: 1, max: 2 ** 30 });
export const extent = (max: number, min = 1): fc.Arbitrary<number> => fc.integer({ min, max });

/** Checks `runs` random cases, the same ones each time. */
export async function holds<T>(
  runs: number,
  cases: fc.Arbitrary<T>,
  check: (value: T) => void,
): Promise<void> {
  fc.assert(fc.property(cases, check), { numRuns: runs, seed: 20260801 });
}

export function theBackend(): WasmBackend {
  return tf.findBackend('wasm') as unknown as WasmBackend;
}

/** The backend as in the threaded build: our module cannot use its memory. */
export function withoutCompiled(backend: WasmBackend): WasmBackend {
  const hidden = Object.create(backend.wasm, { asm: { value: undefined } }) as WasmModule;
  return new Proxy(backend, {
    get: (target, key, self) => (key === 'wasm' ? hidden : Reflect.get(target, key, self)),
  });
}

export function sameAsCpu(
  kind: Kind,
  name: string,
  inputs: Record<string, Input | undefined>,
  attrs: Attributes,
  { calls = 1 }: { calls?: number } = {},
): void {
  const cpu = tf.findBackend('cpu') as unknown as WasmBackend;
  const wasm = kind === 'plain' ? withoutCompiled(theBackend()) : theBackend();
  if (kind !== 'plain') useKernelSet(theBackend(), kind);
  const expected = run(cpu, 'cpu', name, inputs, attrs);
  const found = run(wasm, 'wasm', name, inputs, attrs, calls);
  assert.deepEqual(found.shape, expected.shape);
  const finite = Array.from(expected.values, Math.abs).filter(Number.isFinite);
  const largest = finite.reduce((a, b) => Math.max(a, b), 1);
  for (const [i, value] of expected.values.entries()) {
    const one = found.values[i] as number;
    if (Object.is(one, value) || one === value || Math.abs(one - value) <= tolerance * largest) continue;
    assert.fail(`${name} ${JSON.stringify(attrs)}: [${i}] is ${one}, expected ${value}`);
  }
}

/** Calls one kernel `calls` times and checks that it leaves nothing but its result in the backend. Returns the last result. */
function run(
  backend: WasmBackend,
  backendName: string,
  name: string,
  inputs: Record<string, Input | undefined>,
  attrs: Attributes,
  calls = 1,
): { shape: number[]; values: Float32Array } {
  const counted = backend as unknown as { numDataIds(): number };
  const infos = Object.fromEntries(
    Object.entries(inputs).flatMap(([key, input]) => {
      if (input === undefined) return [];
      const dtype: tf.DataType = input.values instanceof Int32Array ? 'int32' : 'float32';
      const shape = [...input.shape];
      return [[key, { dataId: backend.write(input.values.slice(), shape, dtype), shape, dtype }]];
    }),
  );
  const kernel = tf.getKernel(name, backendName).kernelFunc as unknown as Kernel;
  for (let call = 1; call < calls; call++) {
    backend.disposeData((kernel({ inputs: infos, backend, attrs }) as tf.TensorInfo).dataId);
  }
  const before = counted.numDataIds();
  if (backendName === 'wasm') dirty(backend);
  const output = kernel({ inputs: infos, backend, attrs }) as tf.TensorInfo;
  if (backendName === 'wasm') assert.equal(counted.numDataIds(), before + 1, `${name} leaves data behind`);
  const values =
    backendName === 'wasm'
      ? floats(backend, output)[0].slice()
      : (backend.readSync(output.dataId) as Float32Array);
  for (const { dataId } of [output, ...Object.values(infos)]) backend.disposeData(dataId);
  return { shape: output.shape, values };
}

/** Writes to memory that malloc() will return next, because results must not rely on zeros. */
function dirty(backend: WasmBackend): void {
  for (const length of [8, 64, 512, 4096]) {
    const info = backend.makeOutput([length], 'float32');
    backend.typedArrayFromHeap(info).fill(7);
    backend.disposeData(info.dataId);
  }
}

export function some(seed: number, shape: readonly number[]): Input {
  const size = shape.reduce((a, b) => a * b, 1);
  let state = seed;
  const values = Float32Array.from({ length: size }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
  return { shape, values };
}

/** As some(), with NaN, infinities, subnormal numbers and zeros of both signs among the values. */
export function strange(seed: number, shape: readonly number[]): Input {
  const { values } = some(seed, shape);
  const special = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e-40, -1e-45, 0, -0];
  for (let i = seed % 11; i < values.length; i += 11) values[i] = special[i % special.length] as number;
  return { shape, values };
}

/** Makes the heap grow, so that its buffer is another one. */
export function growHeap(): void {
  const { buffer } = (theBackend().wasm.asm as { memory: { buffer: ArrayBuffer } }).memory;
  const backend = theBackend();
  const info = backend.makeOutput([buffer.byteLength / 4], 'float32');
  backend.disposeData(info.dataId);
  assert.notEqual((backend.wasm.asm as { memory: { buffer: ArrayBuffer } }).memory.buffer, buffer);
}
