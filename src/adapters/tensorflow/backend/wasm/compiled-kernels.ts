// The kernels of native/wasm, on the memory of the backend that calls them. The same C exists twice: in the addon, compiled for
// the instruction set of this processor (native/src/compute), and as a WASM module. The addon's are used if there is an addon,
// unless HOROVOD_NATIVE_KERNELS=0. Undefined if neither can be: the threaded build uses shared memory, which our module cannot import.

import { processEnvironment } from '../../../../settings/environment.ts';
import { readWasm } from '../../../../settings/package.ts';
import { readSettings } from '../../../../settings/read-settings.ts';
import { addonForBackends, type NativeComputeKernels } from '../addon.ts';
import type { WasmBackend, WasmModule } from './kernel.ts';

/** `wasm`, or an instruction set of the addon. */
export type KernelSetName = 'wasm' | 'baseline' | 'avx2' | 'avx512' | 'neon';

/** Arguments are byte offsets into the heap, extents and strides; see the C files. */
export interface CompiledKernels {
  readonly matMul: (...values: number[]) => void;
  readonly convolution: (...values: number[]) => void;
  readonly convScratchFloats: (windowSize: number, outChannels: number) => number;
  readonly finishRows: (...values: number[]) => void;
  readonly convInputGradient: (...values: number[]) => void;
  readonly convInputScratchFloats: (windowSize: number, outChannels: number, channels: number) => number;
  readonly convFilterGradient: (...values: number[]) => void;
  readonly convFilterScratchFloats: (windowSize: number, outChannels: number) => number;
  readonly depthwiseConvolution: (...values: number[]) => void;
  readonly depthwiseFilterGradient: (...values: number[]) => void;
  readonly depthwiseInputGradient: (...values: number[]) => void;
  readonly maxPool: (...values: number[]) => void;
  readonly maxPoolGradient: (...values: number[]) => void;
  readonly averagePool: (...values: number[]) => void;
  readonly averagePoolGradient: (...values: number[]) => void;
  readonly addRow: (...values: number[]) => void;
  readonly reluOf: (...values: number[]) => void;
  readonly reluGradient: (...values: number[]) => void;
  readonly sumRows: (...values: number[]) => void;
  readonly sgdUpdate: (...values: number[]) => void;
  readonly momentumUpdate: (...values: number[]) => void;
  readonly adamUpdate: (...values: number[]) => void;
  readonly rmsPropUpdate: (...values: number[]) => void;
  readonly adagradUpdate: (...values: number[]) => void;
  readonly winogradConvolution: (...values: number[]) => void;
  readonly winogradFilterGradient: (...values: number[]) => void;
  readonly winogradScratchFloats: (channels: number, outChannels: number) => number;
  /** Offset of the memory that matMul works in. */
  readonly scratch: number;
  readonly set: KernelSetName;
}

type Functions = Omit<CompiledKernels, 'scratch' | 'set'> & { readonly scratchFloats: () => number };

interface Memory {
  readonly buffer: ArrayBuffer;
}

interface WebAssemblyGlobal {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: unknown };
}

/** What a backend uses, and what it has used, because the scratch memory of a set stays allocated. */
interface Choice {
  used: CompiledKernels | undefined;
  readonly made: Map<KernelSetName, CompiledKernels>;
}

const kernelsOf = new WeakMap<WasmModule, Choice>();

export function compiledKernels({ wasm }: WasmBackend): CompiledKernels | undefined {
  return choiceOf(wasm).used;
}

/** The kernels of the addon, which are faster than any others; undefined if they are not in use. */
export function nativeKernels(backend: WasmBackend): CompiledKernels | undefined {
  const kernels = compiledKernels(backend);
  return kernels?.set === 'wasm' ? undefined : kernels;
}

/** Makes this backend use the kernels of this set from now on; for tests and measurements. False: they cannot be used here. */
export function useKernelSet({ wasm }: WasmBackend, set: KernelSetName): boolean {
  const choice = choiceOf(wasm);
  const found = choice.made.get(set) ?? (set === 'wasm' ? fromModule(wasm) : fromAddon(wasm, set));
  if (found === undefined) return false;
  choice.made.set(set, found);
  choice.used = found;
  return true;
}

function choiceOf(wasm: WasmModule): Choice {
  const known = kernelsOf.get(wasm);
  if (known !== undefined) return known;
  const { nativeKernels } = readSettings(processEnvironment());
  const used = (nativeKernels ? fromAddon(wasm) : undefined) ?? fromModule(wasm);
  const choice = { used, made: new Map(used ? [[used.set, used]] : []) };
  kernelsOf.set(wasm, choice);
  return choice;
}

function fromAddon(wasm: WasmModule, wanted?: KernelSetName): CompiledKernels | undefined {
  const memory = wasm.asm?.['memory'] as Memory | undefined;
  if (!(memory?.buffer instanceof ArrayBuffer)) return undefined;
  const addon = addonForBackends();
  const native = 'reason' in addon ? undefined : addon.computeKernels(wanted);
  return (
    native && withScratch(wasm, onMemory(memory, native) as unknown as Functions, native.set as KernelSetName)
  );
}

/** Growing gives the memory another buffer, so each call asks for it. */
function onMemory(
  memory: Memory,
  native: NativeComputeKernels,
): Record<string, (...values: number[]) => number> {
  return Object.fromEntries(
    Object.entries(native).flatMap(([name, kernel]) =>
      typeof kernel === 'string' ? [] : [[name, (...values: number[]) => kernel(memory.buffer, ...values)]],
    ),
  );
}

function fromModule(wasm: WasmModule): CompiledKernels | undefined {
  const memory = wasm.asm?.['memory'];
  if (memory === undefined) return undefined;
  const bytes = readWasm('training-kernels');
  try {
    const { WebAssembly } = globalThis as unknown as { WebAssembly: WebAssemblyGlobal };
    const module = new WebAssembly.Module(bytes);
    const { exports } = new WebAssembly.Instance(module, { env: { memory } });
    return withScratch(wasm, exports as Functions, 'wasm');
  } catch {
    return undefined;
  }
}

function withScratch(
  wasm: WasmModule,
  functions: Functions,
  set: KernelSetName,
): CompiledKernels | undefined {
  const scratch = wasm._malloc(4 * functions.scratchFloats()) >>> 0; // it returns addresses above 2 GiB as negative numbers
  return scratch === 0 ? undefined : { ...functions, scratch, set };
}
