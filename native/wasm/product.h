// Matrix products of packed blocks, shared by the training kernels of this folder; see training-kernels.c.

#pragma once

#include <wasm_simd128.h>

#define EXPORT(name) __attribute__((export_name(#name)))

typedef unsigned int size;

enum { tileRows = 4, tileColumns = 8, blockRows = 384, blockColumns = 512, blockDepth = 256 };

static inline size roundUp(size value, size step) { return (value + step - 1) / step * step; }

static inline void clear(float *out, size count) {
  size i = 0;
  for (; i + 4 <= count; i += 4) wasm_v128_store(out + i, wasm_f32x4_const_splat(0));
  for (; i < count; i++) out[i] = 0;
}

// ---- matrix product -----------------------------------------------------------------------------------
// Blocks of both operands are first *packed*: A into panels of 4 rows, B into panels of 8 columns, one depth after the
// other, so that a tile reads both sequentially. Packing also takes care of transposes and convolution windows.

/** c[4][8] = (or +=) the product of a panel of A with a panel of B. */
static inline __attribute__((always_inline)) void tile(const float *a, const float *b, size depth, float *c,
                                                       size stride, int adds) {
  v128_t c00, c01, c10, c11, c20, c21, c30, c31;
  if (adds) {
    c00 = wasm_v128_load(c);
    c01 = wasm_v128_load(c + 4);
    c10 = wasm_v128_load(c + stride);
    c11 = wasm_v128_load(c + stride + 4);
    c20 = wasm_v128_load(c + 2 * stride);
    c21 = wasm_v128_load(c + 2 * stride + 4);
    c30 = wasm_v128_load(c + 3 * stride);
    c31 = wasm_v128_load(c + 3 * stride + 4);
  } else {
    c00 = c01 = c10 = c11 = c20 = c21 = c30 = c31 = wasm_f32x4_const_splat(0);
  }
  for (size k = 0; k < depth; k++) {
    const v128_t b0 = wasm_v128_load(b);
    const v128_t b1 = wasm_v128_load(b + 4);
    const v128_t a0 = wasm_v128_load32_splat(a);
    c00 = wasm_f32x4_add(c00, wasm_f32x4_mul(a0, b0));
    c01 = wasm_f32x4_add(c01, wasm_f32x4_mul(a0, b1));
    const v128_t a1 = wasm_v128_load32_splat(a + 1);
    c10 = wasm_f32x4_add(c10, wasm_f32x4_mul(a1, b0));
    c11 = wasm_f32x4_add(c11, wasm_f32x4_mul(a1, b1));
    const v128_t a2 = wasm_v128_load32_splat(a + 2);
    c20 = wasm_f32x4_add(c20, wasm_f32x4_mul(a2, b0));
    c21 = wasm_f32x4_add(c21, wasm_f32x4_mul(a2, b1));
    const v128_t a3 = wasm_v128_load32_splat(a + 3);
    c30 = wasm_f32x4_add(c30, wasm_f32x4_mul(a3, b0));
    c31 = wasm_f32x4_add(c31, wasm_f32x4_mul(a3, b1));
    a += tileRows;
    b += tileColumns;
  }
  wasm_v128_store(c, c00);
  wasm_v128_store(c + 4, c01);
  wasm_v128_store(c + stride, c10);
  wasm_v128_store(c + stride + 4, c11);
  wasm_v128_store(c + 2 * stride, c20);
  wasm_v128_store(c + 2 * stride + 4, c21);
  wasm_v128_store(c + 3 * stride, c30);
  wasm_v128_store(c + 3 * stride + 4, c31);
}

/** Multiplies all tiles of a packed block. Incomplete tiles at its edges are computed in `rim`, one tile of scratch. */
static inline void multiplyBlock(const float *packedA, const float *packedB, size rows, size columns, size depth, float *c,
                          size stride, int adds, float *rim) {
  for (size j = 0; j < columns; j += tileColumns) {
    const float *b = packedB + j * depth;
    const size width = columns - j < tileColumns ? columns - j : tileColumns;
    for (size i = 0; i < rows; i += tileRows) {
      const float *a = packedA + i * depth;
      const size height = rows - i < tileRows ? rows - i : tileRows;
      float *target = c + i * stride + j;
      if (height == tileRows && width == tileColumns) {
        tile(a, b, depth, target, stride, adds);
        continue;
      }
      tile(a, b, depth, rim, tileColumns, 0);
      for (size y = 0; y < height; y++)
        for (size x = 0; x < width; x++) {
          const float value = rim[y * tileColumns + x];
          target[y * stride + x] = adds ? target[y * stride + x] + value : value;
        }
    }
  }
}

/** Element (line, k) of the source is at line · lineStep + k · depthStep; `lines` lines go into panels of `panel`. */
static inline __attribute__((always_inline)) void pack(float *out, const float *source, size lines, size depth,
                                                       size lineStep, size depthStep, size panel) {
  for (size first = 0; first < lines; first += panel, out += panel * depth) {
    const float *from = source + first * lineStep;
    if (lines - first >= panel && lineStep == 1) {
      for (size k = 0; k < depth; k++)
        for (size i = 0; i < panel; i += 4)
          wasm_v128_store(out + k * panel + i, wasm_v128_load(from + k * depthStep + i));
    } else if (lines - first >= panel) {
      // 4 lines × 4 depths at a time, transposed in registers.
      for (size i = 0; i < panel; i += 4) {
        const float *r0 = from + i * lineStep, *r1 = r0 + lineStep, *r2 = r1 + lineStep, *r3 = r2 + lineStep;
        float *to = out + i;
        size k = 0;
        if (depthStep == 1)
          for (; k + 4 <= depth; k += 4) {
            const v128_t v0 = wasm_v128_load(r0 + k), v1 = wasm_v128_load(r1 + k);
            const v128_t v2 = wasm_v128_load(r2 + k), v3 = wasm_v128_load(r3 + k);
            const v128_t t0 = wasm_i32x4_shuffle(v0, v1, 0, 4, 1, 5), t1 = wasm_i32x4_shuffle(v2, v3, 0, 4, 1, 5);
            const v128_t t2 = wasm_i32x4_shuffle(v0, v1, 2, 6, 3, 7), t3 = wasm_i32x4_shuffle(v2, v3, 2, 6, 3, 7);
            wasm_v128_store(to + (k + 0) * panel, wasm_i64x2_shuffle(t0, t1, 0, 2));
            wasm_v128_store(to + (k + 1) * panel, wasm_i64x2_shuffle(t0, t1, 1, 3));
            wasm_v128_store(to + (k + 2) * panel, wasm_i64x2_shuffle(t2, t3, 0, 2));
            wasm_v128_store(to + (k + 3) * panel, wasm_i64x2_shuffle(t2, t3, 1, 3));
          }
        for (; k < depth; k++) {
          to[k * panel] = r0[k * depthStep];
          to[k * panel + 1] = r1[k * depthStep];
          to[k * panel + 2] = r2[k * depthStep];
          to[k * panel + 3] = r3[k * depthStep];
        }
      }
    } else {
      const size rest = lines - first;
      for (size k = 0; k < depth; k++)
        for (size i = 0; i < panel; i++)
          out[k * panel + i] = i < rest ? from[i * lineStep + k * depthStep] : 0;
    }
  }
}
