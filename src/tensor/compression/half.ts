// fp16 and bf16: half of the bytes of float32, summed as they travel. Price: 11 or 8 bits of precision.

import type { TypedArray } from '../dtype.ts';
import { bfloat16ToFloat32, float16ToFloat32, float32ToBfloat16, float32ToFloat16 } from '../half-float.ts';
import { elementsIn } from '../tensor.ts';
import type { Compressor } from './compressor.ts';

export type HalfContext = 'float32' | 'float64' | undefined;

export const fp16: Compressor<HalfContext> = half('fp16', 'float16', float32ToFloat16, float16ToFloat32);
export const bf16: Compressor<HalfContext> = half('bf16', 'bfloat16', float32ToBfloat16, bfloat16ToFloat32);

function half(
  name: 'fp16' | 'bf16',
  dtype: 'float16' | 'bfloat16',
  shrink: (source: Float32Array, target: Uint16Array) => void,
  widen: (source: Uint16Array, target: Float32Array) => void,
): Compressor<HalfContext> {
  return {
    name,
    // Floats only; integers and floats that are half already pass.
    compress(tensor) {
      if (tensor.dtype !== 'float32' && tensor.dtype !== 'float64') return { tensor, context: undefined };
      const bits = new Uint16Array(tensor.data.length);
      shrink(
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
      widen(tensor.data as Uint16Array, wide);
      const data: TypedArray = context === 'float32' ? wide : Float64Array.from(wide);
      return { data, shape: tensor.shape, dtype: context };
    },
  };
}
