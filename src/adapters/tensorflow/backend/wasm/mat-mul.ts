// BatchMatMul. The backend's own kernel uses XNNPACK only if no operand is transposed or batched, and a scalar loop otherwise. The
// backpropagation of a dense layer consists of such products. The compiled kernel reads transposed operands directly. Without it,
// operands are transposed first.

import * as tf from '@tensorflow/tfjs';
import { type CompiledKernels, compiledKernels } from './compiled-kernels.ts';
import {
  type Kernel,
  makeZeros,
  offsets,
  type Replacement,
  type RunKernel,
  sizeOf,
  type WasmBackend,
  withIntermediates,
  wrapper,
} from './kernel.ts';

/** With fewer rows XNNPACK is faster than the WASM kernel, because it keeps packed weights from one call to the next. */
const minRows = 16;

export const matMul: Replacement = wrapper('BatchMatMul', (original) => (call) => {
  const { inputs, backend, attrs } = call;
  const { a, b } = inputs as { a: tf.TensorInfo; b: tf.TensorInfo };
  const { transposeA, transposeB } = attrs as { transposeA: boolean; transposeB: boolean };
  if (a.dtype !== 'float32' || b.dtype !== 'float32') return original(call);
  const product = describe(a, b, Boolean(transposeA), Boolean(transposeB));
  const isPlain = !transposeA && !transposeB && product.batch === 1;
  if (product.inner === 0) return makeZeros(backend, product.shape);
  const compiled = product.isSimple ? compiledKernels(backend) : undefined;
  if (compiled && (compiled.set !== 'wasm' || !isPlain || product.rows >= minRows)) {
    return multiply(backend, a, b, product, compiled);
  }
  return isPlain ? original(call) : transposeFirst(call.backend, a, b, product, original);
});

interface Product {
  readonly batch: number;
  readonly rows: number;
  readonly inner: number;
  readonly columns: number;
  readonly shape: number[];
  readonly transposeA: boolean;
  readonly transposeB: boolean;
  /** Whether both operands have the same number of matrices, or one of them has a single matrix. */
  readonly isSimple: boolean;
  readonly batchA: number;
  readonly batchB: number;
}

function describe(a: tf.TensorInfo, b: tf.TensorInfo, transposeA: boolean, transposeB: boolean): Product {
  const [aRows, aColumns] = a.shape.slice(-2) as [number, number];
  const [bRows, bColumns] = b.shape.slice(-2) as [number, number];
  const [outerA, outerB] = [a.shape.slice(0, -2), b.shape.slice(0, -2)];
  const [batchA, batchB] = [sizeOf(outerA), sizeOf(outerB)];
  const [rows, inner] = transposeA ? [aColumns, aRows] : [aRows, aColumns];
  const [innerB, columns] = transposeB ? [bColumns, bRows] : [bRows, bColumns];
  const isSame = outerA.length === outerB.length && outerA.every((extent, i) => extent === outerB[i]);
  const isSimple = innerB === inner && (isSame || batchA === 1 || batchB === 1);
  const shape = [...tf.backend_util.assertAndGetBroadcastShape(outerA, outerB), rows, columns];
  const batch = Math.max(batchA, batchB);
  return { batch, rows, inner, columns, shape, transposeA, transposeB, isSimple, batchA, batchB };
}

function multiply(
  backend: WasmBackend,
  a: tf.TensorInfo,
  b: tf.TensorInfo,
  product: Product,
  compiled: CompiledKernels,
): tf.TensorInfo {
  const { batch, rows, inner, columns, transposeA, transposeB, batchA, batchB } = product;
  const output = backend.makeOutput(product.shape, 'float32');
  const [c, left, right] = offsets(backend, output, a, b) as [number, number, number];
  const stepsA = transposeA ? [1, rows] : [inner, 1];
  const stepsB = transposeB ? [1, inner] : [columns, 1];
  for (let i = 0; i < batch; i++) {
    compiled.matMul(
      c + 4 * i * rows * columns,
      left + (batchA === 1 ? 0 : 4 * i * rows * inner),
      right + (batchB === 1 ? 0 : 4 * i * inner * columns),
      ...[rows, columns, inner, ...stepsA, ...stepsB, compiled.scratch],
    );
  }
  return output;
}

function transposeFirst(
  backend: WasmBackend,
  a: tf.TensorInfo,
  b: tf.TensorInfo,
  { transposeA, transposeB }: Product,
  original: Kernel,
): tf.TensorInfo {
  return withIntermediates(backend, (run) => {
    const left = transposeA ? swapLastAxes(a, run) : a;
    const right = transposeB ? swapLastAxes(b, run) : b;
    const plain = { transposeA: false, transposeB: false };
    return original({ inputs: { a: left, b: right }, backend, attrs: plain }) as tf.TensorInfo;
  });
}

function swapLastAxes(x: tf.TensorInfo, run: RunKernel): tf.TensorInfo {
  const perm = x.shape.map((_, axis) => axis);
  perm.push(...perm.splice(-2).reverse());
  return run('Transpose', { x }, { perm });
}
