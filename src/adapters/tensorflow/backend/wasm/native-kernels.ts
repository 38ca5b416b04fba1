// The kernels of native/wasm, instantiated on the memory of the backend that calls them. Undefined if that is not possible: the
// threaded build uses shared memory, which our module cannot import.

import { readWasm } from '../../../../settings/package.ts';
import type { WasmBackend, WasmModule } from './kernel.ts';

/** Arguments are byte offsets into the heap, extents and strides; see the C files. */
export interface NativeKernels {
  readonly matMul: (...values: number[]) => void;
  readonly convolution: (...values: number[]) => void;
  readonly convScratchFloats: (windowSize: number, outChannels: number) => number;
  readonly addToRows: (...values: number[]) => void;
  readonly convInputGradient: (...values: number[]) => void;
  readonly convInputScratchFloats: (windowSize: number, outChannels: number, channels: number) => number;
  readonly convFilterGradient: (...values: number[]) => void;
  readonly convFilterScratchFloats: (windowSize: number, outChannels: number) => number;
  readonly depthwiseFilterGradient: (...values: number[]) => void;
  readonly depthwiseInputGradient: (...values: number[]) => void;
  readonly maxPoolGradient: (...values: number[]) => void;
  readonly sumRows: (...values: number[]) => void;
  readonly winogradConvolution: (...values: number[]) => void;
  readonly winogradFilterGradient: (...values: number[]) => void;
  readonly winogradScratchFloats: (channels: number, outChannels: number) => number;
  /** Offset of the memory that matMul works in. */
  readonly scratch: number;
}

interface WebAssemblyGlobal {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: unknown };
}

const kernelsOf = new WeakMap<WasmModule, NativeKernels | 'missing'>();

export function nativeKernels({ wasm }: WasmBackend): NativeKernels | undefined {
  const known = kernelsOf.get(wasm);
  if (known !== undefined) return known === 'missing' ? undefined : known;
  const made = instantiate(wasm);
  kernelsOf.set(wasm, made ?? 'missing');
  return made;
}

function instantiate(wasm: WasmModule): NativeKernels | undefined {
  const memory = wasm.asm?.['memory'];
  if (memory === undefined) return undefined;
  const bytes = readWasm('training-kernels');
  try {
    const { WebAssembly } = globalThis as unknown as { WebAssembly: WebAssemblyGlobal };
    const module = new WebAssembly.Module(bytes);
    const { exports } = new WebAssembly.Instance(module, { env: { memory } });
    const kernels = exports as NativeKernels & { scratchFloats(): number };
    const scratch = wasm._malloc(4 * kernels.scratchFloats());
    return scratch === 0 ? undefined : { ...kernels, scratch };
  } catch {
    return undefined;
  }
}
