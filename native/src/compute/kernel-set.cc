#include "kernel-set.h"

#include <cstring>

#include "../processor/instructions.h"
#include "sets.h"

namespace hvd::compute {

const KernelSet* kernel_set(const char* name) {
  auto is_wanted = [&](const KernelSet& set) { return name == nullptr || std::strcmp(name, set.name) == 0; };
#if defined(__x86_64__)
  const bool has_avx2 = instructions().avx2 && instructions().fma;
  if (is_wanted(avx512) && has_avx2 && instructions().avx512) return &avx512;
  if (is_wanted(avx2) && has_avx2) return &avx2;
#endif
  return is_wanted(baseline) ? &baseline : nullptr;
}

}  // namespace hvd::compute
