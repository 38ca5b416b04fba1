#include "kernel-set.h"

#include <cstring>

#include "sets.h"

namespace hvd::compute {
namespace {

#if defined(__x86_64__)
// __builtin_cpu_supports() asks whether the operating system saves the registers, too.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

}  // namespace

const KernelSet* kernel_set(const char* name) {
  auto is_wanted = [&](const KernelSet& set) { return name == nullptr || std::strcmp(name, set.name) == 0; };
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (is_wanted(avx512) && has_avx512()) return &avx512;
  if (is_wanted(avx2) && has_avx2()) return &avx2;
#endif
  return is_wanted(baseline) ? &baseline : nullptr;
}

}  // namespace hvd::compute
