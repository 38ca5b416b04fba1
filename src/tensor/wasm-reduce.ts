// Reductions on staging memory: WASM SIMD kernels where the JavaScript engine supports them, reduceInto() everywhere else,
// with the same bits. The portable transport keeps the bytes it is about to combine in a *staging* memory, on which a
// WASM instance can work without a copy; areas of it are identified by their byte offset.
//
// Kernels work on whole vectors of 16 bytes (32 for half floats) and so may read and write a little beyond
// the last element. Therefore: areas start at multiples of `areaAlignment`, and nothing else lives between
// the end of an area's data and the next multiple.

import assert from 'node:assert';
import { readWasm } from '../settings/package.ts';
import { type DType, dtypes, type TypedArray } from './dtype.ts';
import { type HalfDType, narrow, widen } from './half-float.ts';
import { reduceInto, scaleInto } from './reduce.ts';
import type { ReduceOp } from './reduce-op.ts';

export const areaAlignment = 64;

/** The size of an area that holds `bytes`. */
export function areaBytes(bytes: number): number {
  return Math.ceil(bytes / areaAlignment) * areaAlignment;
}

export interface ReduceKernels {
  readonly kind: 'simd' | 'plain';
  /** The staging memory; areas lie in [0, stagingBytes) of it. It never moves. */
  readonly staging: Uint8Array;
  /**
   * The area at `output` becomes postscale · (inputs[0] ∘ inputs[1] ∘ …), each an area of `length` elements;
   * `output` may be one of the inputs.
   */
  reduce(
    output: number,
    inputs: readonly number[],
    length: number,
    dtype: DType,
    op: ReduceOp,
    postscale: number,
  ): void;
  /** Multiplies the elements of the area, as a prescale does. */
  scale(area: number, length: number, dtype: DType, factor: number): void;
  /** What narrow() reads and widen() writes. Any other call may overwrite it. */
  readonly wide: Float32Array;
  /** Writes the first `length` elements of `wide`, rounded, to the area. */
  narrow(area: number, length: number, dtype: HalfDType): void;
  /** Writes the elements of the area to the first `length` elements of `wide`. */
  widen(area: number, length: number, dtype: HalfDType): void;
}

/** Kernels with new staging memory, SIMD if possible. */
export function createReduceKernels(stagingBytes: number): ReduceKernels {
  return createSimdKernels(stagingBytes) ?? createPlainKernels(stagingBytes);
}

export function createPlainKernels(stagingBytes: number): ReduceKernels {
  return plainKernels(new Uint8Array(stagingBytes));
}

/** The parts of the WebAssembly global that are used here; TypeScript declares it in its DOM library, which is not loaded. */
interface WebAssemblyGlobal {
  Memory: new (limits: { initial: number; maximum: number }) => WasmMemory;
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: unknown };
}

interface WasmMemory {
  readonly buffer: ArrayBuffer;
}

/** Undefined if WASM SIMD is not supported or there is no address space for its memory. */
export function createSimdKernels(stagingBytes: number): ReduceKernels | undefined {
  const bytes = readWasm('reduce-kernels');
  try {
    const { WebAssembly } = globalThis as unknown as { WebAssembly: WebAssemblyGlobal };
    const pages = Math.ceil((areaBytes(stagingBytes) + 2 * wideBytes) / 65536);
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    const module = new WebAssembly.Module(bytes);
    const { exports } = new WebAssembly.Instance(module, { staging: { memory } });
    return simdKernels(memory, stagingBytes, exports as Kernels);
  } catch {
    return undefined;
  }
}

function plainKernels(staging: Uint8Array): ReduceKernels {
  const elements = (dtype: DType, area: number, length: number): TypedArray => {
    const [Elements] = dtypes[dtype].arrays;
    assert(Elements !== undefined);
    return new Elements(staging.buffer, staging.byteOffset + area, length);
  };
  const wide = new Float32Array(wideLength);
  const halves = (area: number, length: number) =>
    new Uint16Array(staging.buffer, staging.byteOffset + area, length);
  return {
    kind: 'plain',
    staging,
    wide,
    narrow: (area, length, dtype) => narrow(dtype, wide.subarray(0, length), halves(area, length)),
    widen: (area, length, dtype) => widen(dtype, halves(area, length), wide.subarray(0, length)),
    reduce(output, inputs, length, dtype, op, postscale) {
      const sources = inputs.map((input) => elements(dtype, input, length));
      reduceInto(elements(dtype, output, length), sources, dtype, op, 1, postscale);
    },
    scale(area, length, dtype, factor) {
      const values = elements(dtype, area, length);
      scaleInto(values, values, dtype, factor);
    },
  };
}

type Combine = (out: number, a: number, b: number, vectors: number) => void;
type CombineScaled = (out: number, a: number, b: number, factor: number, vectors: number) => void;
type Scale = (out: number, a: number, factor: number, vectors: number) => void;
type Convert = (out: number, a: number, vectors: number) => void;
type Kernels = Readonly<Record<string, Combine & CombineScaled & Scale & Convert>>;

/** Half floats are combined in float32, this many at a time, in two areas behind the staging memory. */
const wideLength = 4096;
const wideBytes = 4 * wideLength;

function simdKernels(memory: WasmMemory, stagingBytes: number, kernels: Kernels): ReduceKernels {
  const plain = plainKernels(new Uint8Array(memory.buffer, 0, stagingBytes));
  const wideSum = areaBytes(stagingBytes);
  const wideNext = wideSum + wideBytes;

  function reduceHalves(
    output: number,
    inputs: readonly number[],
    length: number,
    dtype: HalfDType,
    op: ReduceOp,
    postscale: number,
  ): void {
    const widen = kernels[`${dtype}Widen`] as Convert;
    const narrow = kernels[`${dtype}Narrow`] as Convert;
    const combine = kernels[`float32${op.name}`] as Combine;
    for (let start = 0; start < length; start += wideLength) {
      const quads = Math.ceil(Math.min(wideLength, length - start) / 4);
      for (const [index, input] of inputs.entries()) {
        widen(index === 0 ? wideSum : wideNext, input + 2 * start, quads);
        if (index > 0) combine(wideSum, wideSum, wideNext, quads);
      }
      if (postscale !== 1) (kernels['float32Scale'] as Scale)(wideSum, wideSum, postscale, quads);
      narrow(output + 2 * start, wideSum, Math.ceil(quads / 2));
    }
  }

  function scaleHalves(area: number, length: number, dtype: HalfDType, factor: number): void {
    for (let start = 0; start < length; start += wideLength) {
      const quads = Math.ceil(Math.min(wideLength, length - start) / 4);
      (kernels[`${dtype}Widen`] as Convert)(wideSum, area + 2 * start, quads);
      (kernels['float32Scale'] as Scale)(wideSum, wideSum, factor, quads);
      (kernels[`${dtype}Narrow`] as Convert)(area + 2 * start, wideSum, Math.ceil(quads / 2));
    }
  }

  function scale(area: number, length: number, dtype: DType, factor: number): void {
    if (factor === 1) return;
    if (dtype === 'float16' || dtype === 'bfloat16') scaleHalves(area, length, dtype, factor);
    else {
      const kernel = kernels[`${dtype}Scale`] as Scale | undefined;
      if (kernel === undefined) plain.scale(area, length, dtype, factor);
      else kernel(area, area, factor, vectorsOf(length, dtype));
    }
  }

  return {
    kind: 'simd',
    staging: plain.staging,
    scale,
    wide: new Float32Array(memory.buffer, wideSum, wideLength),
    narrow: (area, length, dtype) =>
      (kernels[`${dtype}Narrow`] as Convert)(area, wideSum, Math.ceil(length / 8)),
    widen: (area, length, dtype) =>
      (kernels[`${dtype}Widen`] as Convert)(wideSum, area, Math.ceil(length / 4)),
    reduce(output, inputs, length, dtype, op, postscale) {
      if (dtype === 'float16' || dtype === 'bfloat16') {
        reduceHalves(output, inputs, length, dtype, op, postscale);
        return;
      }
      const combine = kernels[dtype + op.name] as Combine | undefined;
      const first = inputs[0] as number;
      // The output is written as soon as the first two are combined: a later input must not lie there.
      if (combine === undefined || inputs.length < 2 || inputs.indexOf(output, 2) !== -1) {
        plain.reduce(output, inputs, length, dtype, op, postscale);
        return;
      }
      const vectors = vectorsOf(length, dtype);
      const fused =
        inputs.length === 2 && postscale !== 1
          ? (kernels[`${dtype}${op.name}Scaled`] as CombineScaled | undefined)
          : undefined;
      if (fused !== undefined) {
        fused(output, first, inputs[1] as number, postscale, vectors);
        return;
      }
      combine(output, first, inputs[1] as number, vectors);
      for (let i = 2; i < inputs.length; i++) combine(output, output, inputs[i] as number, vectors);
      scale(output, length, dtype, postscale);
    },
  };
}

function vectorsOf(length: number, dtype: DType): number {
  return Math.ceil((length * dtypes[dtype].bytes) / 16);
}
