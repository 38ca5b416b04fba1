// Chooses the kernels as reduce.cc does; see lossy.inc for the kernels themselves.
#include "lossy.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "../processor/loops.h"
#include "reduce.h"

namespace hvd::lossy {
namespace {

struct Kernels {
  decltype(&lossy::quantize) quantize;
  decltype(&lossy::dequantize) dequantize;
  decltype(&lossy::keep_rest) keep_rest;
  decltype(&lossy::choose_largest) choose_largest;
  decltype(&lossy::multiply) multiply;
  decltype(&lossy::multiply_transposed) multiply_transposed;
  decltype(&lossy::expand) expand;
};

typedef double Four __attribute__((vector_size(32)));

constexpr int32_t infinity = 0x7f800000;
constexpr uint32_t quiet_nan = 0x7fc00000;
constexpr int8_t not_finite = -128;
constexpr double rounding_bias = 0x1.8p52;

float scale_for(float largest) {
  auto scale = static_cast<float>(static_cast<double>(largest) / 127);
  // Rounding up would turn the largest float32 numbers into infinity.
  if (std::isinf(static_cast<float>(static_cast<double>(scale) * 127)))
    scale = static_cast<float>(static_cast<double>(scale) * (1 - 0x1p-23));
  return scale;
}

float scale_at(const char* scales, size_t block) {
  float scale;
  std::memcpy(&scale, scales + 4 * block, 4);
  return scale;
}

// The key of which at least `*missing` values are as large or larger; `*missing` becomes how many of that key are wanted.
uint32_t cut(const uint32_t* counts, uint32_t last, size_t* missing) {
  uint32_t key = last;
  for (; key > 0 && counts[key] < *missing; key--) *missing -= counts[key];
  return key;
}

namespace baseline {
#include "lossy.inc"
}

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
namespace avx2 {
#include "lossy.inc"
}
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
namespace avx512 {
#include "lossy.inc"
}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

const Kernels& chosen() {
#if defined(__x86_64__)
  const char* name = instruction_set();
  if (std::strcmp(name, "avx512") == 0) return avx512::kernels;
  if (std::strcmp(name, "avx2") == 0) return avx2::kernels;
#endif
  return baseline::kernels;
}

}  // namespace

void quantize(const float* values, size_t elements, size_t block, char* scales, int8_t* codes) {
  chosen().quantize(values, elements, block, scales, codes);
}

void dequantize(float* target, size_t elements, size_t block, const char* scales, const int8_t* codes, bool is_added) {
  chosen().dequantize(target, elements, block, scales, codes, is_added);
}

void keep_rest(float* residual, const float* values, size_t elements, size_t block, const char* scales,
               const int8_t* codes, bool is_added) {
  chosen().keep_rest(residual, values, elements, block, scales, codes, is_added);
}

void choose_largest(const float* data, size_t elements, uint32_t* places, float* values, size_t count) {
  chosen().choose_largest(data, elements, places, values, count);
}

void multiply(const float* m, size_t rows, size_t columns, const float* q, float* p, size_t rank) {
  chosen().multiply(m, rows, columns, q, p, rank);
}

void multiply_transposed(const float* m, size_t rows, size_t columns, const float* p, float* q, size_t rank) {
  chosen().multiply_transposed(m, rows, columns, p, q, rank);
}

void expand(const float* p, const float* q, size_t rows, size_t columns, size_t rank, float* target) {
  chosen().expand(p, q, rows, columns, rank, target);
}

}  // namespace hvd::lossy
