// Matrix products of packed blocks, shared by the training kernels of this folder; see training-kernels.c.
//
// Blocks of both operands are first *packed*: A into panels of tileRows rows, B into panels of tileColumns columns, one depth after
// the other, so that a tile reads both sequentially. Packing also takes care of transposes and convolution windows.

#pragma once

#include "vector.h"

#define tileColumns ((size)tileVectors * lanes)
#define tileFloats (tileRows * tileColumns)
#define blockRows 384u // of A, in panels of 4, 6 or 8
#define blockColumns 512u
#define blockDepth 256u

/**
 * c[rows][vectors · lanes] = (or +=) the product of A and B, where A(i, k) = a[i · aRow + k · aDepth] and the columns of B(k) are
 * contiguous at b[k · bDepth]. `rows` and `vectors` are constants.
 */
INLINE void tileOf(int rows, int vectors, const float *a, size aRow, size aDepth, const float *b, size bDepth,
                   size depth, float *c, size stride, int adds) {
  Vector sums[tileRows][tileVectors];
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int v = 0; v < vectors; v++) sums[i][v] = adds ? load(c + i * stride + v * lanes) : zero();
  for (size k = 0; k < depth; k++, a += aDepth, b += bDepth) {
    Vector columns[tileVectors];
    UNROLL for (int v = 0; v < vectors; v++) columns[v] = load(b + v * lanes);
    UNROLL for (int i = 0; i < rows; i++) {
      const Vector row = splat(a[i * aRow]);
      UNROLL for (int v = 0; v < vectors; v++) sums[i][v] += row * columns[v];
    }
  }
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int v = 0; v < vectors; v++) store(c + i * stride + v * lanes, sums[i][v]);
}

/** The product of a panel of A with a panel of B. */
INLINE void tile(int vectors, const float *a, const float *b, size depth, float *c, size stride, int adds) {
  tileOf(tileRows, vectors, a, 1, tileRows, b, tileColumns, depth, c, stride, adds);
}

/** Multiplies all tiles of a packed block. Incomplete tiles at its edges are computed in `rim`, one tile of scratch. */
INLINE void multiplyBlock(const float *packedA, const float *packedB, size rows, size columns, size depth, float *c,
                          size stride, int adds, float *rim) {
  for (size j = 0; j < columns; j += tileColumns) {
    const float *b = packedB + j * depth;
    const size width = smaller(columns - j, tileColumns);
    for (size i = 0; i < rows; i += tileRows) {
      const float *a = packedA + i * depth;
      const size height = smaller(rows - i, tileRows);
      float *target = c + i * stride + j;
      if (height == tileRows && width == tileColumns) {
        tile(tileVectors, a, b, depth, target, stride, adds);
        continue;
      }
      if (width > lanes) tile(tileVectors, a, b, depth, rim, tileColumns, 0);
      else tile(1, a, b, depth, rim, tileColumns, 0);
      for (size y = 0; y < height; y++)
        for (size x = 0; x < width; x++) {
          const float value = rim[y * tileColumns + x];
          target[y * stride + x] = adds ? target[y * stride + x] + value : value;
        }
    }
  }
}

/** Copies `panel` floats; at least 4. */
INLINE void copyPanel(float *to, const float *from, size panel) {
  size i = 0;
  UNROLL for (; i + lanes <= panel; i += lanes) store(to + i, load(from + i));
  UNROLL for (; i + 4 <= panel; i += 4) storeFour(to + i, loadFour(from + i));
  if (i < panel) storeFour(to + panel - 4, loadFour(from + panel - 4));
}

/** Element (line, k) of the source is at line · lineStep + k · depthStep; `lines` lines go into panels of `panel`. */
INLINE void pack(float *out, const float *source, size lines, size depth, size lineStep, size depthStep, size panel) {
  for (size first = 0; first < lines; first += panel, out += panel * depth) {
    const float *from = source + first * lineStep;
    const size rest = lines - first;
    if (rest >= panel && lineStep == 1) {
      for (size k = 0; k < depth; k++) copyPanel(out + k * panel, from + k * depthStep, panel);
    } else if (rest >= panel) {
      // 4 lines × 4 depths at a time, transposed in registers. The last four lines of six begin with the third.
      for (size group = 0; group < panel; group += 4) {
        const size i = smaller(group, panel - 4);
        const float *r0 = from + i * lineStep, *r1 = r0 + lineStep, *r2 = r1 + lineStep, *r3 = r2 + lineStep;
        float *to = out + i;
        size k = 0;
        if (depthStep == 1)
          for (; k + 4 <= depth; k += 4)
            transposeFours(to + k * panel, panel, loadFour(r0 + k), loadFour(r1 + k), loadFour(r2 + k), loadFour(r3 + k));
        for (; k < depth; k++) {
          to[k * panel] = r0[k * depthStep];
          to[k * panel + 1] = r1[k * depthStep];
          to[k * panel + 2] = r2[k * depthStep];
          to[k * panel + 3] = r3[k * depthStep];
        }
      }
    } else {
      for (size k = 0; k < depth; k++) {
        for (size i = 0; i < rest; i++) out[k * panel + i] = from[i * lineStep + k * depthStep];
        for (size i = rest; i < panel; i++) out[k * panel + i] = 0;
      }
    }
  }
}
