// Chooses the kernels for this processor; see kernels.inc for the kernels themselves.
#include "reduce.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "../processor/instructions.h"
#include "../processor/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hvd {
namespace {

using ReduceKernel = void (*)(void*, const void* const*, int, size_t, double);
using ScaleKernel = void (*)(void*, const void*, size_t, double);

struct HalfKernels {
  void (*narrow)(void*, const float*, size_t);
  void (*widen)(float*, const void*, size_t);
  ReduceKernel reduce_widening[6];
};

float half_to_float(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f)  // infinity; a NaN becomes quiet, as the processor's own conversion does
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
  if (exponent == 0) {  // zero and subnormals: exact in float32
    float value = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t float_to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {  // subnormal: let the adder round to nearest even
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// Toward zero, then modulo 2^64 (the caller narrows further); NaN and infinities become 0.
int64_t truncate_wrapping(double value) {
  if (std::fabs(value) < 0x1p63) return static_cast<int64_t>(value);
  if (!std::isfinite(value)) return 0;
  double rest = std::fmod(std::trunc(value), 0x1p64);
  uint64_t bits = static_cast<uint64_t>(std::fabs(rest));
  return static_cast<int64_t>(rest < 0 ? 0 - bits : bits);
}

namespace baseline {
#include "kernels.inc"
}

#if defined(__x86_64__)
#define HVD_F16C 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif
namespace avx2 {
#include "kernels.inc"
}
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,f16c,prefer-vector-width=512")
#endif
namespace avx512 {
#include "kernels.inc"
}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

struct Table {
  const char* name;
  ReduceKernel reduce[dtype_count][6];
  ScaleKernel scale[dtype_count];
  HalfKernels float16, bfloat16;
  const HalfKernels& of(DType dtype) const { return dtype == DType::bfloat16 ? bfloat16 : float16; }
};

using ReduceLookup = ReduceKernel (*)(DType, Op);
using ScaleLookup = ScaleKernel (*)(DType);
using HalfLookup = HalfKernels (*)(DType);

Table make_table(const char* name, ReduceLookup reduce_kernel, ScaleLookup scale_kernel, HalfLookup half_kernels) {
  Table table{};
  table.name = name;
  for (int dtype = 0; dtype < dtype_count; dtype++) {
    for (Op op : {Op::sum, Op::min, Op::max, Op::product})
      table.reduce[dtype][static_cast<int>(op)] = reduce_kernel(static_cast<DType>(dtype), op);
    table.scale[dtype] = scale_kernel(static_cast<DType>(dtype));
  }
  table.float16 = half_kernels(DType::float16);
  table.bfloat16 = half_kernels(DType::bfloat16);
  return table;
}

bool supports(const char* name) {
  if (std::strcmp(name, "avx512") == 0) return instructions().avx512 && instructions().f16c;
  if (std::strcmp(name, "avx2") == 0) return instructions().avx2 && instructions().f16c;
  return std::strcmp(name, "baseline") == 0;
}

// The best first.
const Table tables[] = {
#if defined(__x86_64__)
    make_table("avx512", avx512::reduce_kernel, avx512::scale_kernel, avx512::half_kernels),
    make_table("avx2", avx2::reduce_kernel, avx2::scale_kernel, avx2::half_kernels),
#endif
    make_table("baseline", baseline::reduce_kernel, baseline::scale_kernel, baseline::half_kernels),
};

const Table* best() {
  for (const Table& table : tables)
    if (supports(table.name)) return &table;
  return nullptr;
}

const Table* kernels = best();

}  // namespace

size_t element_bytes(DType dtype) {
  constexpr uint8_t bytes[dtype_count] = {1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2};
  return bytes[static_cast<int>(dtype)];
}

void reduce(void* out, const void* const* sources, int source_count, size_t elements, DType dtype, Op op,
            double postscale) {
  kernels->reduce[static_cast<int>(dtype)][static_cast<int>(op)](out, sources, source_count, elements, postscale);
}

void scale(void* out, const void* in, size_t elements, DType dtype, double factor) {
  kernels->scale[static_cast<int>(dtype)](out, in, elements, factor);
}

void narrow(void* out, const float* in, size_t elements, DType dtype) { kernels->of(dtype).narrow(out, in, elements); }

void widen(float* out, const void* in, size_t elements, DType dtype) { kernels->of(dtype).widen(out, in, elements); }

void reduce_widening(float* out, const void* const* sources, int source_count, size_t elements, DType dtype, Op op,
                     double postscale) {
  kernels->of(dtype).reduce_widening[static_cast<int>(op)](out, sources, source_count, elements, postscale);
}

const char* instruction_set() { return kernels->name; }

bool use_instruction_set(const char* name) {
  for (const Table& table : tables) {
    if (std::strcmp(table.name, name) != 0 || !supports(name)) continue;
    kernels = &table;
    return true;
  }
  return false;
}

}  // namespace hvd
