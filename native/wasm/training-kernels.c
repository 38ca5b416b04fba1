// Training kernels for the WASM backend of TensorFlow.js, for what its own C++ code lacks or does slowly. They work in the
// backend's memory. scripts/build-training-kernels.mjs compiles them into native/wasm/compiled/training-kernels.wasm.
//
// The kernels must not use a stack in memory or static data, because both would overwrite data of the backend. The build
// checks it. All offsets count floats; images are [batch, height, width, channels].

#include "product.h"

/** Floats of scratch that matMul needs. */
EXPORT(scratchFloats) size scratchFloats(void) {
  return blockDepth * (blockRows + blockColumns) + tileRows * tileColumns;
}

/**
 * c[rows][columns] = A · B, where A(i, k) = a[i · aRow + k · aDepth] and B(k, j) = b[k · bDepth + j · bColumn].
 * 2 · rows · columns · depth operations; packing moves each element of A once per 512 columns and of B once.
 */
EXPORT(matMul)
void matMul(float *c, const float *a, const float *b, size rows, size columns, size depth, size aRow, size aDepth,
            size bDepth, size bColumn, float *scratch) {
  float *packedA = scratch;
  float *packedB = packedA + blockRows * blockDepth;
  float *rim = packedB + blockColumns * blockDepth;
  for (size j = 0; j < columns; j += blockColumns) {
    const size width = columns - j < blockColumns ? columns - j : blockColumns;
    for (size k = 0; k < depth; k += blockDepth) {
      const size deep = depth - k < blockDepth ? depth - k : blockDepth;
      pack(packedB, b + k * bDepth + j * bColumn, width, deep, bColumn, bDepth, tileColumns);
      for (size i = 0; i < rows; i += blockRows) {
        const size height = rows - i < blockRows ? rows - i : blockRows;
        pack(packedA, a + i * aRow + k * aDepth, height, deep, aRow, aDepth, tileRows);
        multiplyBlock(packedA, packedB, height, width, deep, c + i * columns + j, columns, k > 0, rim);
      }
    }
  }
}

// ---- depthwise convolution --------------------------------------------------------------------------------------

/** Gradient of a depthwise convolution for its filter, [filterHeight, filterWidth, channels, multiplier]. */
EXPORT(depthwiseFilterGradient)
void depthwiseFilterGradient(float *dw, const float *x, const float *dy, size batch, int height, int width,
                             size channels, size multiplier, size outHeight, size outWidth, size filterHeight,
                             size filterWidth, int strideHeight, int strideWidth, int dilationHeight,
                             int dilationWidth, int top, int left) {
  const size outChannels = channels * multiplier;
  clear(dw, filterHeight * filterWidth * outChannels);
  for (size n = 0; n < batch; n++)
    for (size oh = 0; oh < outHeight; oh++)
      for (size ow = 0; ow < outWidth; ow++, dy += outChannels)
        for (size kh = 0; kh < filterHeight; kh++) {
          const int y = (int)oh * strideHeight - top + (int)kh * dilationHeight;
          if (y < 0 || y >= height) continue;
          for (size kw = 0; kw < filterWidth; kw++) {
            const int xx = (int)ow * strideWidth - left + (int)kw * dilationWidth;
            if (xx < 0 || xx >= width) continue;
            const float *from = x + ((n * height + y) * width + xx) * channels;
            float *to = dw + (kh * filterWidth + kw) * outChannels;
            if (multiplier == 1)
              for (size c = 0; c < channels; c++) to[c] += from[c] * dy[c];
            else
              for (size c = 0; c < channels; c++)
                for (size q = 0; q < multiplier; q++) to[c * multiplier + q] += from[c] * dy[c * multiplier + q];
          }
        }
}

/** Gradient of a depthwise convolution for its input. */
EXPORT(depthwiseInputGradient)
void depthwiseInputGradient(float *dx, const float *filter, const float *dy, size batch, int height, int width,
                            size channels, size multiplier, size outHeight, size outWidth, size filterHeight,
                            size filterWidth, int strideHeight, int strideWidth, int dilationHeight,
                            int dilationWidth, int top, int left) {
  const size outChannels = channels * multiplier;
  clear(dx, batch * height * width * channels);
  for (size n = 0; n < batch; n++)
    for (size oh = 0; oh < outHeight; oh++)
      for (size ow = 0; ow < outWidth; ow++, dy += outChannels)
        for (size kh = 0; kh < filterHeight; kh++) {
          const int y = (int)oh * strideHeight - top + (int)kh * dilationHeight;
          if (y < 0 || y >= height) continue;
          for (size kw = 0; kw < filterWidth; kw++) {
            const int xx = (int)ow * strideWidth - left + (int)kw * dilationWidth;
            if (xx < 0 || xx >= width) continue;
            float *to = dx + ((n * height + y) * width + xx) * channels;
            const float *weights = filter + (kh * filterWidth + kw) * outChannels;
            if (multiplier == 1)
              for (size c = 0; c < channels; c++) to[c] += weights[c] * dy[c];
            else
              for (size c = 0; c < channels; c++)
                for (size q = 0; q < multiplier; q++) to[c] += weights[c * multiplier + q] * dy[c * multiplier + q];
          }
        }
}

// ---- pooling and sums ---------------------------------------------------------------------------------

/** Gradient of max pooling. The gradient of a window goes to its first largest value; if all are NaN, to none. */
EXPORT(maxPoolGradient)
void maxPoolGradient(float *dx, const float *x, const float *dy, size batch, int height, int width, size channels,
                     size outHeight, size outWidth, int filterHeight, int filterWidth, int strideHeight,
                     int strideWidth, int top, int left) {
  clear(dx, batch * height * width * channels);
  for (size n = 0; n < batch; n++)
    for (size oh = 0; oh < outHeight; oh++) {
      const int y0 = (int)oh * strideHeight - top, y1 = y0 + filterHeight;
      const int firstRow = y0 < 0 ? 0 : y0, lastRow = y1 > height ? height : y1;
      for (size ow = 0; ow < outWidth; ow++, dy += channels) {
        const int x0 = (int)ow * strideWidth - left, x1 = x0 + filterWidth;
        const int firstColumn = x0 < 0 ? 0 : x0, lastColumn = x1 > width ? width : x1;
        size c = 0;
        for (; c + 4 <= channels; c += 4) {
          v128_t best = wasm_f32x4_const_splat(-__builtin_inff()), place = wasm_i32x4_const_splat(-1);
          for (int r = firstRow; r < lastRow; r++)
            for (int w = firstColumn; w < lastColumn; w++) {
              const v128_t value = wasm_v128_load(x + ((n * height + r) * width + w) * channels + c);
              const v128_t isLarger = wasm_f32x4_gt(value, best);
              best = wasm_v128_bitselect(value, best, isLarger);
              place = wasm_v128_bitselect(wasm_i32x4_splat(r * width + w), place, isLarger);
            }
          const v128_t gradient = wasm_v128_load(dy + c);
          for (int r = firstRow; r < lastRow; r++)
            for (int w = firstColumn; w < lastColumn; w++) {
              float *to = dx + ((n * height + r) * width + w) * channels + c;
              const v128_t isHere = wasm_i32x4_eq(place, wasm_i32x4_splat(r * width + w));
              wasm_v128_store(to, wasm_f32x4_add(wasm_v128_load(to), wasm_v128_and(gradient, isHere)));
            }
        }
        for (; c < channels; c++) {
          float best = -__builtin_inff();
          int place = -1;
          for (int r = firstRow; r < lastRow; r++)
            for (int w = firstColumn; w < lastColumn; w++) {
              const float value = x[((n * height + r) * width + w) * channels + c];
              if (value > best) best = value, place = r * width + w;
            }
          if (place >= 0) dx[(n * height * width + place) * channels + c] += dy[c];
        }
      }
    }
}

/** Adds `row` to each row of x, as a bias. */
EXPORT(addToRows)
void addToRows(float *x, const float *row, size rows, size columns) {
  for (size r = 0; r < rows; r++, x += columns) {
    size c = 0;
    for (; c + 4 <= columns; c += 4)
      wasm_v128_store(x + c, wasm_f32x4_add(wasm_v128_load(x + c), wasm_v128_load(row + c)));
    for (; c < columns; c++) x[c] += row[c];
  }
}

/** out[columns] = the sum of the rows of x. Each 64 rows are summed before they are added to the total, which rounds less. */
EXPORT(sumRows)
void sumRows(float *out, const float *x, size rows, size columns) {
  size c = 0;
  for (; c + 8 <= columns; c += 8) {
    v128_t total0 = wasm_f32x4_const_splat(0), total1 = total0;
    for (size row = 0; row < rows;) {
      const size end = rows - row < 64 ? rows : row + 64;
      v128_t part0 = wasm_f32x4_const_splat(0), part1 = part0;
      for (; row < end; row++) {
        part0 = wasm_f32x4_add(part0, wasm_v128_load(x + row * columns + c));
        part1 = wasm_f32x4_add(part1, wasm_v128_load(x + row * columns + c + 4));
      }
      total0 = wasm_f32x4_add(total0, part0);
      total1 = wasm_f32x4_add(total1, part1);
    }
    wasm_v128_store(out + c, total0);
    wasm_v128_store(out + c + 4, total1);
  }
  for (; c < columns; c++) {
    float total = 0;
    for (size row = 0; row < rows;) {
      const size end = rows - row < 64 ? rows : row + 64;
      float part = 0;
      for (; row < end; row++) part += x[row * columns + c];
      total += part;
    }
    out[c] = total;
  }
}
