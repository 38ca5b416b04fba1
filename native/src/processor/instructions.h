// Which instructions this processor and its operating system offer. Asked of the processor itself (cpuid and xgetbv; the auxiliary
// vector on ARM): what a compiler's own function needs at run time is missing from a shared object that zig links.
#pragma once

namespace hvd {

struct Instructions {
  bool sse42 = false;
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx512 = false;  // F, BW, DQ and VL, as every server processor with AVX-512 has them
  bool crc32 = false;   // ARMv8's checksums
};

const Instructions& instructions();

}  // namespace hvd
