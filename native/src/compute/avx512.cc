// See kernels.inc; the flags for this file are in scripts/lib/compute-flags.mjs.
#if defined(__x86_64__)
#define SET avx512
#define NAME "avx512"
#include "kernels.inc"
#endif
