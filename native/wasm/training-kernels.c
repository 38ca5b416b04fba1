// Training kernels for the WASM backend of TensorFlow.js, for what its own C++ code lacks or does slowly. They work in the
// backend's memory. scripts/build-training-kernels.mjs compiles them into native/wasm/compiled/training-kernels.wasm.
//
// The kernels must not use a stack in memory or static data, because both would overwrite data of the backend. The build
// checks it. All offsets count floats; images are [batch, height, width, channels].

#include "product.h"

/** Floats of scratch that matMul needs. */
EXPORT(scratchFloats) size scratchFloats(void) {
  return blockDepth * (blockRows + blockColumns) + tileFloats + alignmentFloats;
}

/** A product of a few rows (a constant) with a B whose rows are contiguous. */
INLINE void fewRows(int rows, float *c, const float *a, const float *b, size columns, size depth, size aRow,
                    size aDepth, size bDepth) {
  size j = 0;
  for (; j + tileColumns <= columns; j += tileColumns)
    tileOf(rows, tileVectors, a, aRow, aDepth, b + j, bDepth, depth, c + j, columns, 0);
  for (; j + lanes <= columns; j += lanes) tileOf(rows, 1, a, aRow, aDepth, b + j, bDepth, depth, c + j, columns, 0);
  for (; j < columns; j++)
    for (int i = 0; i < rows; i++) {
      float sum = 0;
      for (size k = 0; k < depth; k++) sum += a[i * aRow + k * aDepth] * b[k * bDepth + j];
      c[i * columns + j] = sum;
    }
}

/** A product of a few rows with a transposed B: dot products of rows of both. */
static inline void dotProducts(float *c, const float *a, const float *b, size rows, size columns, size depth,
                               size aRow, size bColumn) {
  for (size i = 0; i < rows; i++)
    for (size j = 0; j < columns; j++) {
      const float *from = a + i * aRow, *with = b + j * bColumn;
      Vector sum0 = zero(), sum1 = zero();
      float rest = 0;
      size k = 0;
      for (; k + 2 * lanes <= depth; k += 2 * lanes) {
        sum0 += load(from + k) * load(with + k);
        sum1 += load(from + k + lanes) * load(with + k + lanes);
      }
      for (; k < depth; k++) rest += from[k] * with[k];
      c[i * columns + j] = sumOf(sum0 + sum1) + rest;
    }
}

/**
 * c[rows][columns] = A · B, where A(i, k) = a[i · aRow + k · aDepth] and B(k, j) = b[k · bDepth + j · bColumn].
 * 2 · rows · columns · depth operations; packing moves each element of A once per 512 columns and of B once. Products of one to four
 * rows take longer to pack than to compute, so they read both where they are.
 */
EXPORT(matMul)
void matMul(float *c, const float *a, const float *b, size rows, size columns, size depth, size aRow, size aDepth,
            size bDepth, size bColumn, float *scratch) {
  if (rows <= 4 && bColumn == 1) {
    if (rows == 1) fewRows(1, c, a, b, columns, depth, aRow, aDepth, bDepth);
    if (rows == 2) fewRows(2, c, a, b, columns, depth, aRow, aDepth, bDepth);
    if (rows == 3) fewRows(3, c, a, b, columns, depth, aRow, aDepth, bDepth);
    if (rows == 4) fewRows(4, c, a, b, columns, depth, aRow, aDepth, bDepth);
    return;
  }
  if (rows <= 4 && bDepth == 1 && aDepth == 1) {
    dotProducts(c, a, b, rows, columns, depth, aRow, bColumn);
    return;
  }
  float *packedA = aligned(scratch);
  float *packedB = packedA + blockRows * blockDepth;
  float *rim = packedB + blockColumns * blockDepth;
  for (size j = 0; j < columns; j += blockColumns) {
    const size width = smaller(columns - j, blockColumns);
    for (size k = 0; k < depth; k += blockDepth) {
      const size deep = smaller(depth - k, blockDepth);
      pack(packedB, b + k * bDepth + j * bColumn, width, deep, bColumn, bDepth, tileColumns);
      for (size i = 0; i < rows; i += blockRows) {
        const size height = smaller(rows - i, blockRows);
        pack(packedA, a + i * aRow + k * aDepth, height, deep, aRow, aDepth, tileRows);
        multiplyBlock(packedA, packedB, height, width, deep, c + i * columns + j, columns, k > 0, rim);
      }
    }
  }
}
