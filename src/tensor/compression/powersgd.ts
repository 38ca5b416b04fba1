// powersgd(rank): a matrix travels as two thin ones. M are the members' matrices (rows × columns, gradient and residual),
// Q is the columns × rank matrix of the previous call, and ∑ is over the members:
//
//   P = ∑ M·Q    its columns made orthonormal    Q = ∑ Mᵀ·P    ∑ M ≈ P·Qᵀ    residual = M − P·(own Mᵀ·P)ᵀ
//
// which is one step of the power method for the best such approximation, continued from call to call (PowerSGD, Vogels
// et al. 2019). The last dimension of a tensor gives the columns, the others the rows. Tensors of one dimension, and those
// that would not shrink by minCompressionRate, are summed uncompressed in the same step.
//
// Price: 2 steps, allreduces of rank·(rows + columns) float32 for each matrix; 3·rank multiplications for each value.
// All members do the same arithmetic on the same sums, in float64, with operations that do not differ between machines.
//
// If any value is not finite, the whole tensor becomes NaN on all ranks, and residual and Q stay unchanged.

import { HorovodError } from '../../errors.ts';
import { describe } from '../tensor.ts';
import type { CompressibleTensor, KernelGroup, ReducingCompressor } from './compressor.ts';
import { plainKernels } from './kernels.ts';
import { allreduce } from './wire.ts';

export interface PowerSgdOptions {
  /** Matrices that would not become this many times smaller are not compressed. Default: 2. */
  readonly minCompressionRate?: number | undefined;
  /** Keep what was not sent, and add it the next time. Default: true. */
  readonly errorFeedback?: boolean | undefined;
}

/** `rank` of the thin matrices: a higher rank is more exact and sends more bytes. Common values are 1 to 4. */
export function powersgd(rank: number, options: PowerSgdOptions = {}): ReducingCompressor {
  if (!Number.isSafeInteger(rank) || rank < 1) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `Compression.powersgd(rank): the rank must be a whole number from 1, not ${describe(rank)}.`,
    );
  }
  const { minCompressionRate = 2, errorFeedback = true } = Object(options) as PowerSgdOptions;
  if (typeof minCompressionRate !== 'number' || !(minCompressionRate >= 1)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `Compression.powersgd(): minCompressionRate must be a number from 1, not ${describe(minCompressionRate)}.`,
    );
  }
  const parameters = [
    `${rank}`,
    ...(minCompressionRate === 2 ? [] : [`from a rate of ${minCompressionRate}`]),
    ...(errorFeedback ? [] : ['no error feedback']),
  ];
  return {
    name: `powersgd(${parameters.join(', ')})`,
    errorFeedback,
    *reduce(tensors, { kernels = plainKernels }: KernelGroup) {
      const matrices: Matrix[] = [];
      const whole: CompressibleTensor[] = [];
      for (const tensor of tensors) {
        const matrix = matrixOf(tensor, rank, minCompressionRate);
        if (matrix === undefined) whole.push(tensor);
        else matrices.push(matrix);
      }
      for (const { tensor, rows, columns, q, p } of matrices) {
        kernels.multiply(tensor.data, rows, columns, q, p, rank);
      }
      yield* allreduce([...matrices.map(({ p }) => p), ...whole.map(({ data }) => data)]);
      for (const { residual } of whole) residual?.fill(0);

      const good = matrices.filter(({ p }) => areFinite(p));
      const own = good.map(({ tensor, rows, columns, p }) => {
        orthonormalize(p, rows, rank);
        const q = new Float32Array(columns * rank);
        kernels.multiplyTransposed(tensor.data, rows, columns, p, q, rank);
        return q;
      });
      const sums = own.map((q) => q.slice());
      yield* allreduce(sums);

      for (const { tensor } of matrices.filter((matrix) => !good.includes(matrix))) {
        tensor.data.fill(Number.NaN);
      }
      good.forEach(({ tensor, rows, columns, p }, i) => {
        const sum = sums[i] as Float32Array;
        const { data, residual, shared } = tensor;
        if (!areFinite(sum)) {
          data.fill(Number.NaN);
          return;
        }
        if (residual !== undefined) {
          kernels.expand(p, own[i] as Float32Array, rows, columns, rank, residual);
          for (let j = 0; j < data.length; j++) residual[j] = (data[j] as number) - (residual[j] as number);
        }
        kernels.expand(p, sum, rows, columns, rank, data);
        shared.set('q', sum);
      });
    },
  };
}

function areFinite(values: Float32Array): boolean {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i])) return false;
  return true;
}

interface Matrix {
  readonly tensor: CompressibleTensor;
  readonly rows: number;
  readonly columns: number;
  /** rank × columns: the columns of Q one after the other, which is how the loops below read them. */
  readonly q: Float32Array;
  /** rank × rows, likewise. */
  readonly p: Float32Array;
}

/** Undefined: the tensor is not compressed. */
function matrixOf(tensor: CompressibleTensor, rank: number, minCompressionRate: number): Matrix | undefined {
  const { data, shape, shared } = tensor;
  const columns = shape.at(-1) ?? 1;
  if (shape.length < 2 || data.length === 0) return undefined;
  const rows = data.length / columns;
  if ((rows + columns) * rank * minCompressionRate > data.length) return undefined;
  const q = shared.get('q') ?? new Float32Array(columns * rank);
  reseed(q, columns, rank);
  return { tensor, rows, columns, q, p: new Float32Array(rows * rank) };
}

/** A column of zeros would stay zero forever, so it gets new values, the same on every rank. */
export function reseed(q: Float32Array, columns: number, rank: number): void {
  for (let k = 0; k < rank; k++) {
    const column = q.subarray(k * columns, (k + 1) * columns);
    if (column.some((value) => value !== 0)) continue;
    let state = (k + 1) * 0x9e3779b1;
    for (let j = 0; j < columns; j++) {
      // xorshift32 uses only integers, so all machines compute the same.
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      column[j] = (state | 0) / 2 ** 31;
    }
  }
}

/**
 * Makes the columns of p orthonormal, one after another (modified Gram-Schmidt, twice, in float64). A column that is a
 * linear combination of those before it becomes zero.
 */
export function orthonormalize(p: Float32Array, rows: number, rank: number): void {
  const done: Float64Array[] = [];
  for (let k = 0; k < rank; k++) {
    const column = Float64Array.from(p.subarray(k * rows, (k + 1) * rows));
    const before = normOf(column);
    for (let pass = 0; pass < 2; pass++) {
      for (const other of done) {
        let product = 0;
        for (let i = 0; i < rows; i++) product += (other[i] as number) * (column[i] as number);
        for (let i = 0; i < rows; i++) column[i] = (column[i] as number) - product * (other[i] as number);
      }
    }
    const norm = normOf(column);
    // Below this, what is left is the rounding of float32.
    const factor = norm > before * 1e-6 ? 1 / norm : 0;
    for (let i = 0; i < rows; i++) column[i] = (column[i] as number) * factor;
    p.set(column, k * rows);
    done.push(column);
  }
}

function normOf(column: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < column.length; i++) sum += (column[i] as number) ** 2;
  return Math.sqrt(sum);
}
