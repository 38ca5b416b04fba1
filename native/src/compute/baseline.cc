// See kernels.inc. What every processor of this architecture has: on ARM this includes NEON.
#define SET baseline
#if defined(__aarch64__)
#define NAME "neon"
#else
#define NAME "baseline"
#endif
#include "kernels.inc"
