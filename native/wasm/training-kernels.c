// Training kernels for TensorFlow.js' WASM backend: what its own C++ lacks or does slowly. They work in the backend's
// memory; scripts/build-training-kernels.mjs compiles them into native/wasm/compiled/training-kernels.wasm.
//
// Nothing here uses the stack in memory or static data (the build checks it): both would lie on the backend's own.
// All offsets are in elements of float; images are [batch, height, width, channels].

#include "product.h"

/** Floats of scratch that matMul and convFilterGradient need. */
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

// ---- convolution --------------------------------------------------------------------------------------

/**
 * Gradient of a convolution for its filter, [filterHeight, filterWidth, channels, outChannels]: the product of the
 * windows of x, turned, with dy. The windows are never written out but for the block at hand.
 */
EXPORT(convFilterGradient)
void convFilterGradient(float *dw, const float *x, const float *dy, size batch, int height, int width, size channels,
                        size outHeight, size outWidth, size outChannels, size filterHeight, size filterWidth,
                        int strideHeight, int strideWidth, int top, int left, float *scratch) {
  float *packedA = scratch;
  float *packedB = packedA + blockRows * blockDepth;
  float *rim = packedB + blockColumns * blockDepth;
  const size rows = filterHeight * filterWidth * channels;
  const size depth = batch * outHeight * outWidth;
  for (size j = 0; j < outChannels; j += blockColumns) {
    const size columns = outChannels - j < blockColumns ? outChannels - j : blockColumns;
    for (size k = 0; k < depth; k += blockDepth) {
      const size deep = depth - k < blockDepth ? depth - k : blockDepth;
      pack(packedB, dy + k * outChannels + j, columns, deep, 1, outChannels, tileColumns);
      for (size i = 0; i < rows; i += blockRows) {
        const size block = rows - i < blockRows ? rows - i : blockRows;
        size ow = k % outWidth, oh = k / outWidth % outHeight, n = k / outWidth / outHeight;
        for (size d = 0; d < deep; d++) {
          size c = i % channels, kw = i / channels % filterWidth, kh = i / channels / filterWidth;
          const int y0 = (int)oh * strideHeight - top, x0 = (int)ow * strideWidth - left;
          float *out = packedA + d * tileRows;
          if (channels % 4 == 0) {
            for (size m = 0; m < block; out += deep * tileRows) {
              const int y = y0 + (int)kh, xx = x0 + (int)kw;
              const int isInside = y >= 0 && y < height && xx >= 0 && xx < width;
              const float *from = x + ((n * height + y) * width + xx) * channels;
              // To the end of this place of the window, or of the block.
              for (; c < channels && m < block; c += 4, m += 4) {
                wasm_v128_store(out, isInside ? wasm_v128_load(from + c) : wasm_f32x4_const_splat(0));
                if (c + 4 < channels && m + 4 < block) out += deep * tileRows;
              }
              c = 0;
              if (++kw == filterWidth) kw = 0, kh++;
            }
          } else {
            for (size m = 0; m < block; m += tileRows, out += deep * tileRows)
              for (size lane = 0; lane < tileRows; lane++) {
                const int y = y0 + (int)kh, xx = x0 + (int)kw;
                const int isInside = m + lane < block && y >= 0 && y < height && xx >= 0 && xx < width;
                out[lane] = isInside ? x[((n * height + y) * width + xx) * channels + c] : 0;
                if (++c == channels) {
                  c = 0;
                  if (++kw == filterWidth) kw = 0, kh++;
                }
              }
          }
          if (++ow == outWidth) {
            ow = 0;
            if (++oh == outHeight) oh = 0, n++;
          }
        }
        multiplyBlock(packedA, packedB, block, columns, deep, dw + i * outChannels + j, outChannels, k > 0, rim);
      }
    }
  }
}

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

/** Gradient of max pooling: each window's goes to its largest value, the first among equals, none if all are NaN. */
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

/** out[columns] = the sum of the rows of x. Adds up 64 rows before it adds them to the total: less rounding. */
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
