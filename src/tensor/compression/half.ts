// fp16 and bf16: half of the bytes of float32, which are summed as halves. Price: only 11 or 8 bits of precision remain.

import type { DType, TypedArray } from '../dtype.ts';
import { type HalfDType, narrow, widen } from '../half-float.ts';
import { elementsIn } from '../tensor.ts';
import type { AnyCompressor, Compressor } from './compressor.ts';

export type HalfContext = 'float32' | 'float64' | undefined;

export const fp16: Compressor<HalfContext> = half('fp16', 'float16');
export const bf16: Compressor<HalfContext> = half('bf16', 'bfloat16');

/**
 * The dtype in which transports send these values when they convert while copying instead of calling the compressor. The
 * bits are those of compress() and decompress(), without new arrays. Undefined: transports do not convert them.
 */
export function wireOf(compressor: AnyCompressor, dtype: DType): HalfDType | undefined {
  if (dtype !== 'float32') return undefined;
  return compressor === fp16 ? 'float16' : compressor === bf16 ? 'bfloat16' : undefined;
}

function half(name: 'fp16' | 'bf16', dtype: HalfDType): Compressor<HalfContext> {
  return {
    name,
    // Only float32 and float64 are compressed; others pass unchanged.
    compress(tensor) {
      if (tensor.dtype !== 'float32' && tensor.dtype !== 'float64') return { tensor, context: undefined };
      const bits = new Uint16Array(tensor.data.length);
      narrow(
        dtype,
        tensor.dtype === 'float32'
          ? (tensor.data as Float32Array)
          : Float32Array.from(tensor.data as Float64Array),
        bits,
      );
      return { tensor: { data: bits, shape: tensor.shape, dtype }, context: tensor.dtype };
    },
    decompress(tensor, context) {
      if (context === undefined) return tensor;
      const wide = new Float32Array(elementsIn(tensor.shape));
      widen(dtype, tensor.data as Uint16Array, wide);
      const data: TypedArray = context === 'float32' ? wide : Float64Array.from(wide);
      return { data, shape: tensor.shape, dtype: context };
    },
  };
}
