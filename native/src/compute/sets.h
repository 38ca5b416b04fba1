// The sets of kernels that this build contains, each defined in a file of its own.
#pragma once

#include "kernel-set.h"

namespace hvd::compute {

extern const KernelSet baseline;  // on ARM, this is NEON
#if defined(__x86_64__)
extern const KernelSet avx2, avx512;
#endif

}  // namespace hvd::compute
