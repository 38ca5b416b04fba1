// Reducing and scaling arrays. The results are defined by src/tensor/reduce.ts and are equal to the bit:
// sources are combined in order, floats of 16 bits accumulate in 32 and are rounded once at the end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

// The numbers are those of src/tensor/dtype.ts and src/tensor/reduce-op.ts.
enum class DType : uint8_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  boolean = 9,
  bfloat16 = 10,
};
constexpr int dtype_count = 11;

enum class Op : uint8_t { sum = 1, min = 3, max = 4, product = 5 };

size_t element_bytes(DType dtype);

// out[i] = postscale * (sources[0][i] op sources[1][i] op …). `out` may be one of the sources.
void reduce(void* out, const void* const* sources, int source_count, size_t elements, DType dtype, Op op,
            double postscale);

// out[i] = in[i] * factor, rounded to the dtype. `out` may be `in`.
void scale(void* out, const void* in, size_t elements, DType dtype, double factor);

// Between float32 and `dtype`, float16 or bfloat16; rounds to nearest, ties to even. The arrays do not overlap.
void narrow(void* out, const float* in, size_t elements, DType dtype);
void widen(float* out, const void* in, size_t elements, DType dtype);

// widen(reduce(…)), in one pass. `dtype` is float16 or bfloat16; `out` is none of the sources.
void reduce_widening(float* out, const void* const* sources, int source_count, size_t elements, DType dtype, Op op,
                     double postscale);

// Name of the instruction set in use: "avx512", "avx2" or "baseline".
const char* instruction_set();

// For tests, while nothing else runs: false if this processor does not have it.
bool use_instruction_set(const char* name);

}  // namespace hvd
