// Compiler flags of single files in native/src: the training kernels are compiled once for each instruction set, and the processor is asked
// which set to use (native/src/compute).

import { spawnSync } from 'node:child_process';

/** With clang's `fast`, NOTE [Equal updates] would have no effect; its `on` fuses what stands in one expression. */
const kernels = (isClang) => [`-ffp-contract=${isClang ? 'on' : 'fast'}`, '-fno-trapping-math'];
const avx2 = ['-mavx2', '-mfma'];
const avx512 = [...avx2, '-mavx512f', '-mavx512dq', '-mavx512bw', '-mavx512vl'];
const setsOfX64 = { 'compute/avx2.cc': avx2, 'compute/avx512.cc': avx512 };

/**
 * A function from the path of a source below native/src to its own flags, for what this compiler compiles for. They come last, because they
 * change some of the common flags.
 */
export function ownFlagsFor(compiler, env = process.env) {
  const { status, stdout } = spawnSync(compiler, ['-E', '-dM', '-x', 'c++', '-'], {
    input: '',
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    env,
  });
  if (status !== 0) throw new Error(`${compiler} does not list its macros`);
  const isX64 = /^#define __x86_64__ /m.test(stdout);
  const common = kernels(/^#define __clang__ /m.test(stdout));
  return (name) => {
    const place = name.replaceAll('\\', '/').replace(/^.*\/(?=compute\/)/, '');
    if (!/^compute\/(baseline|avx\d+)\.cc$/.test(place)) return [];
    return [...common, ...(isX64 ? (setsOfX64[place] ?? []) : [])];
  };
}
