#include "instructions.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace hvd {
namespace {

#if defined(__x86_64__)

// Intel SDM, volume 1, sections 14.3 and 15.2: an instruction set counts only if the operating system keeps its registers.
constexpr uint64_t avx_registers = 0x6;
constexpr uint64_t avx512_registers = 0xe6;

uint64_t kept_registers() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

Instructions detect() {
  Instructions found;
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  found.sse42 = (c & bit_SSE4_2) != 0;
  if ((c & bit_OSXSAVE) == 0) return found;
  const uint64_t kept = kept_registers();
  if ((kept & avx_registers) != avx_registers || (c & bit_AVX) == 0) return found;
  found.fma = (c & bit_FMA) != 0;
  found.f16c = (c & bit_F16C) != 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  found.avx2 = (b & bit_AVX2) != 0;
  constexpr uint32_t all = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  found.avx512 = (kept & avx512_registers) == avx512_registers && (b & all) == all;
  return found;
}

#elif defined(__aarch64__) && defined(__linux__)

Instructions detect() {
  Instructions found;
  found.crc32 = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
  return found;
}

#else

Instructions detect() { return {}; }

#endif

}  // namespace

const Instructions& instructions() {
  static const Instructions found = detect();
  return found;
}

}  // namespace hvd
