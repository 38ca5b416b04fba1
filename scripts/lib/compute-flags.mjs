// Compiler flags of single files in native/src: the training kernels are compiled once for each instruction set, and the processor is asked
// which set to use (native/src/compute).

const kernels = ['-ffp-contract=fast', '-fno-trapping-math'];
const sets = {
  'compute/baseline.cc': { any: kernels },
  'compute/avx2.cc': { x64: [...kernels, '-mavx2', '-mfma'] },
  'compute/avx512.cc': {
    x64: [...kernels, '-mavx2', '-mfma', '-mavx512f', '-mavx512dq', '-mavx512bw', '-mavx512vl'],
  },
};

/** @param name Path of a source below native/src. They come last, because they change some of the common flags. */
export function flagsOf(name, architecture = process.arch) {
  const set = Object.entries(sets).find(([path]) => name.replaceAll('\\', '/').endsWith(path))?.[1];
  return set?.any ?? set?.[architecture] ?? [];
}
