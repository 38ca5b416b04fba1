// The loops of lossy compression: codes of int8, choice of the largest values, thin matrices. The results are defined by
// src/tensor/compression/kernels.ts and are equal to the bit. Arrays that are written overlap with no other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd::lossy {

// Values in blocks of `block`, the last one perhaps shorter. A float32 for each block from `scales` on, at any address, and
// a code for each value.
void quantize(const float* values, size_t elements, size_t block, char* scales, int8_t* codes);

// target = what the codes mean, or target += that.
void dequantize(float* target, size_t elements, size_t block, const char* scales, const int8_t* codes, bool is_added);

// residual = values - what the codes mean, or residual += that; 0 where it is not finite.
void keep_rest(float* residual, const float* values, size_t elements, size_t block, const char* scales,
               const int8_t* codes, bool is_added);

// The `count` values of the largest magnitude, in order of their places; of equal ones the first. count <= elements.
void choose_largest(const float* data, size_t elements, uint32_t* places, float* values, size_t count);

// Matrices: m is rows × columns; p is rank × rows and q is rank × columns, that is, their columns lie one after the other.
void multiply(const float* m, size_t rows, size_t columns, const float* q, float* p, size_t rank);             // p = m·q
void multiply_transposed(const float* m, size_t rows, size_t columns, const float* p, float* q, size_t rank);  // q = mᵀ·p
void expand(const float* p, const float* q, size_t rows, size_t columns, size_t rank, float* target);  // target = p·qᵀ

}  // namespace hvd::lossy
