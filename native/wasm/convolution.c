// 2D convolutions with any filter, stride and padding, and their gradients. The gradient for the input is also the forward pass of
// a transposed convolution. 3 × 3 filters with stride 1 over many channels have faster kernels in winograd.c.
//
// Words. A *window* is the part of the input that one output pixel sees: filterHeight *lines* of filterWidth · channels floats.
// Each line is contiguous in the input. (y0, x0) is the corner of a window; it lies outside of the image where there is padding.

#include "product.h"

#define fewOutChannels 8u // with fewer, most of a tile would be padding: lines are multiplied and added without packing
#define pixelsAtOnce 96u  // so that their products stay in the cache; in panels of 4, 6 or 8
#define productStep 528u  // from one row of products to the next; not a power of two, because rows would share cache sets
#define windowsAtOnce 16u
#define windowStep (blockRows + 16)

/** The floats [from, to) of a line lie inside the image; none if to <= from. */
INLINE int insideFrom(int x0, int channels) { return x0 < 0 ? -x0 * channels : 0; }
INLINE int insideTo(int x0, int width, int channels, int line) {
  const int rest = (width - x0) * channels;
  return rest < line ? rest : line;
}

/** to += the sum of four sources, `step` floats apart, scaled by a[0], a[aStep], … */
INLINE void addFourScaled(float *to, const float *from, int step, int count, const float *a, size aStep) {
  const float *from1 = from + step, *from2 = from1 + step, *from3 = from2 + step;
  const float a0 = a[0], a1 = a[aStep], a2 = a[2 * aStep], a3 = a[3 * aStep];
  int i = 0;
  for (; i + lanes <= count; i += lanes) {
    const Vector sum = (splat(a0) * load(from + i) + splat(a1) * load(from1 + i)) +
                       (splat(a2) * load(from2 + i) + splat(a3) * load(from3 + i));
    store(to + i, load(to + i) + sum);
  }
  for (; i + 4 <= count; i += 4) {
    const Four sum = (splatFour(a0) * loadFour(from + i) + splatFour(a1) * loadFour(from1 + i)) +
                     (splatFour(a2) * loadFour(from2 + i) + splatFour(a3) * loadFour(from3 + i));
    storeFour(to + i, loadFour(to + i) + sum);
  }
  for (; i < count; i++) to[i] += (a0 * from[i] + a1 * from1[i]) + (a2 * from2[i] + a3 * from3[i]);
}

/**
 * Floats [first, first + count) of a window, with zeros outside of the image. The window consists of lines of `line` floats; line i
 * begins at row y0 + i / across · downStep, column x0 + i % across · acrossStep. `across` is 1 unless columns are dilated.
 */
static inline void gatherWindow(float *out, const float *image, int height, int width, int channels, int y0, int x0,
                                int line, int across, int downStep, int acrossStep, int first, int count) {
  int from = insideFrom(x0, channels), to = insideTo(x0, width, channels, line);
  const int end = first + count;
  for (int i = first / line, at = first; at < end; i++) {
    int y = y0 + i * downStep, x = x0;
    if (across > 1) {
      y = y0 + i / across * downStep;
      x = x0 + i % across * acrossStep;
      from = insideFrom(x, channels);
      to = insideTo(x, width, channels, line);
    }
    const int start = i * line, stop = start + line < end ? start + line : end;
    int low = start + from > at ? start + from : at, high = start + to < stop ? start + to : stop;
    if (y < 0 || y >= height || low >= high) low = high = stop;
    clear(out, low - at);
    copy(out + low - at, image + (y * width + x) * channels + low - start, high - low);
    clear(out + high - at, stop - high);
    out += stop - at;
    at = stop;
  }
}

/** Floats [first, first + floats) of the windows of `count` output pixels, beginning with `pixel`, one window per windowStep. */
static inline void gatherWindows(float *windows, const float *x, size pixel, size count, size outHeight, size outWidth,
                                 int height, int width, int channels, int strideHeight, int strideWidth, int top,
                                 int left, int line, int across, int downStep, int acrossStep, int first, int floats) {
  size ow = pixel % outWidth, oh = pixel / outWidth % outHeight, n = pixel / outWidth / outHeight;
  for (size t = 0; t < count; t++, windows += windowStep) {
    gatherWindow(windows, x + n * height * width * channels, height, width, channels, (int)oh * strideHeight - top,
                 (int)ow * strideWidth - left, line, across, downStep, acrossStep, first, floats);
    if (++ow == outWidth) {
      ow = 0;
      if (++oh == outHeight) oh = 0, n++;
    }
  }
}

// ---- convolution --------------------------------------------------------------------------------------

/** Floats of scratch that convolution needs. */
EXPORT(convScratchFloats) size convScratchFloats(size window, size outChannels) {
  return roundUp(outChannels, tileColumns) * window + pixelsAtOnce * (blockDepth + windowStep) + tileFloats +
         alignmentFloats;
}

/** For few output channels: the dot products of windows with the filters of each channel, for four pixels at a time. */
static inline void fewConvolution(float *out, const float *x, const float *filter, size batch, int height, int width,
                                  size channels, size outHeight, size outWidth, size outChannels, size filterHeight,
                                  size filterWidth, int strideHeight, int strideWidth, int top, int left,
                                  float *scratch) {
  const int line = (int)(filterWidth * channels), step = strideWidth * (int)channels;
  const size window = filterHeight * line;
  for (size m = 0; m < window; m++)
    for (size o = 0; o < outChannels; o++) scratch[o * window + m] = filter[m * outChannels + o];
  for (size row = 0; row < batch * outHeight; row++) {
    const int y0 = (int)(row % outHeight) * strideHeight - top;
    const float *image = x + row / outHeight * height * width * channels;
    const int firstLine = y0 < 0 ? -y0 : 0;
    const int endLine = height - y0 < (int)filterHeight ? height - y0 : (int)filterHeight;
    for (size ow = 0; ow < outWidth;) {
      const int x0 = (int)ow * strideWidth - left;
      const int isFour = x0 >= 0 && ow + 4 <= outWidth && x0 + 3 * strideWidth + (int)filterWidth <= width;
      const int from = insideFrom(x0, channels), to = insideTo(x0, width, channels, line);
      for (size o = 0; o < outChannels; o++) {
        Vector s0 = zero(), s1 = s0, s2 = s0, s3 = s0;
        float r0 = 0, r1 = 0, r2 = 0, r3 = 0;
        for (int kh = firstLine; kh < endLine; kh++) {
          const float *weights = scratch + o * window + kh * line;
          const float *a = image + ((y0 + kh) * width + x0) * (int)channels, *b = a + step, *c = b + step, *d = c + step;
          int i = from;
          if (isFour) {
            for (; i + lanes <= to; i += lanes) {
              const Vector w = load(weights + i);
              s0 += w * load(a + i);
              s1 += w * load(b + i);
              s2 += w * load(c + i);
              s3 += w * load(d + i);
            }
            for (; i < to; i++) {
              r0 += weights[i] * a[i];
              r1 += weights[i] * b[i];
              r2 += weights[i] * c[i];
              r3 += weights[i] * d[i];
            }
          } else {
            for (; i + lanes <= to; i += lanes) s0 += load(weights + i) * load(a + i);
            for (; i < to; i++) r0 += weights[i] * a[i];
          }
        }
        float *target = out + (row * outWidth + ow) * outChannels + o;
        target[0] = r0 + sumOf(s0);
        if (!isFour) continue;
        target[outChannels] = r1 + sumOf(s1);
        target[2 * outChannels] = r2 + sumOf(s2);
        target[3 * outChannels] = r3 + sumOf(s3);
      }
      ow += isFour ? 4 : 1;
    }
  }
}

/** out[batch, outHeight, outWidth, outChannels]: the product of the windows of x with the filter, which may be dilated. */
EXPORT(convolution)
void convolution(float *out, const float *x, const float *filter, size batch, int height, int width, size channels,
                 size outHeight, size outWidth, size outChannels, size filterHeight, size filterWidth,
                 int strideHeight, int strideWidth, int top, int left, int dilationHeight, int dilationWidth,
                 float *scratch) {
  if (outChannels < fewOutChannels && dilationHeight == 1 && dilationWidth == 1) {
    fewConvolution(out, x, filter, batch, height, width, channels, outHeight, outWidth, outChannels, filterHeight,
                   filterWidth, strideHeight, strideWidth, top, left, scratch);
    return;
  }
  const int across = dilationWidth == 1 ? 1 : (int)filterWidth, line = (int)(filterWidth * channels) / across;
  const size window = filterHeight * filterWidth * channels, wide = roundUp(outChannels, tileColumns);
  const size pixels = batch * outHeight * outWidth;
  float *packedB = aligned(scratch), *packedA = packedB + wide * window, *windows = packedA + pixelsAtOnce * blockDepth;
  float *rim = windows + pixelsAtOnce * windowStep;
  for (size k = 0; k < window; k += blockDepth)
    pack(packedB + wide * k, filter + k * outChannels, outChannels, smaller(blockDepth, window - k), 1, outChannels,
         tileColumns);
  for (size first = 0; first < pixels; first += pixelsAtOnce) {
    const size count = smaller(pixelsAtOnce, pixels - first);
    for (size k = 0; k < window; k += blockDepth) {
      const size deep = smaller(blockDepth, window - k);
      gatherWindows(windows, x, first, count, outHeight, outWidth, height, width, (int)channels, strideHeight,
                    strideWidth, top, left, line, across, dilationHeight, dilationWidth, (int)k, (int)deep);
      pack(packedA, windows, count, deep, windowStep, 1, tileRows);
      multiplyBlock(packedA, packedB + wide * k, count, outChannels, deep, out + first * outChannels, outChannels, k > 0,
                    rim);
    }
  }
}

// ---- gradient for the input ---------------------------------------------------------------------------

/** Floats of scratch that convInputGradient needs. */
EXPORT(convInputScratchFloats) size convInputScratchFloats(size window, size outChannels, size channels) {
  if (outChannels < fewOutChannels)
    return window * outChannels + convScratchFloats(window / channels * outChannels, channels);
  return roundUp(window, tileColumns) * outChannels + pixelsAtOnce * (outChannels + productStep) + tileFloats +
         alignmentFloats;
}

/** For few output channels and stride 1: the convolution of dy with the filter rotated by 180 degrees. */
static inline void rotatedConvolution(float *dx, const float *dy, const float *filter, size batch, size height,
                                      size width, size channels, int outHeight, int outWidth, size outChannels,
                                      size filterHeight, size filterWidth, int top, int left, float *scratch) {
  const size places = filterHeight * filterWidth, weights = places * channels * outChannels;
  for (size place = 0; place < places; place++)
    for (size c = 0; c < channels; c++)
      for (size o = 0; o < outChannels; o++)
        scratch[((places - 1 - place) * outChannels + o) * channels + c] = filter[(place * channels + c) * outChannels + o];
  convolution(dx, dy, scratch, batch, outHeight, outWidth, outChannels, height, width, channels, filterHeight,
              filterWidth, 1, 1, (int)filterHeight - 1 - top, (int)filterWidth - 1 - left, 1, 1, scratch + weights);
}

/** For few output channels: each pixel of dy scales the lines of the filter, which are added to dx. */
static inline void fewInputGradient(float *dx, const float *dy, const float *filter, size batch, int height, int width,
                                    size channels, size outHeight, size outWidth, size outChannels, size filterHeight,
                                    size filterWidth, int strideHeight, int strideWidth, int top, int left,
                                    float *scratch) {
  const int line = (int)(filterWidth * channels);
  const size window = filterHeight * line;
  for (size m = 0; m < window; m++)
    for (size o = 0; o < outChannels; o++) scratch[o * window + m] = filter[m * outChannels + o];
  for (size n = 0; n < batch; n++)
    for (size oh = 0; oh < outHeight; oh++)
      for (size ow = 0; ow < outWidth; ow++, dy += outChannels) {
        const int x0 = (int)ow * strideWidth - left;
        const int from = insideFrom(x0, channels), to = insideTo(x0, width, channels, line);
        if (to <= from) continue;
        for (size kh = 0; kh < filterHeight; kh++) {
          const int y = (int)oh * strideHeight - top + (int)kh;
          if (y < 0 || y >= height) continue;
          float *target = dx + ((int)(n * height + y) * width + x0) * (int)channels + from;
          const float *weights = scratch + kh * line + from;
          size o = 0;
          for (; o + 4 <= outChannels; o += 4)
            addFourScaled(target, weights + o * window, (int)window, to - from, dy + o, 1);
          for (; o < outChannels; o++) addScaled(target, weights + o * window, to - from, dy[o]);
        }
      }
}

/**
 * dx[batch, height, width, channels]: the gradient of a convolution for its input. The product of dy with the transposed
 * filter is what each pixel of dy adds to its window of dx. Its 2 · batch · outHeight · outWidth · window · outChannels operations
 * do not grow with stride or padding.
 */
EXPORT(convInputGradient)
void convInputGradient(float *dx, const float *dy, const float *filter, size batch, int height, int width,
                       size channels, size outHeight, size outWidth, size outChannels, size filterHeight,
                       size filterWidth, int strideHeight, int strideWidth, int top, int left, float *scratch) {
  if (outChannels < fewOutChannels && strideHeight == 1 && strideWidth == 1) {
    rotatedConvolution(dx, dy, filter, batch, height, width, channels, (int)outHeight, (int)outWidth, outChannels,
                       filterHeight, filterWidth, top, left, scratch);
    return;
  }
  clear(dx, batch * height * width * channels);
  if (outChannels < fewOutChannels) {
    fewInputGradient(dx, dy, filter, batch, height, width, channels, outHeight, outWidth, outChannels, filterHeight,
                     filterWidth, strideHeight, strideWidth, top, left, scratch);
    return;
  }
  const int line = (int)(filterWidth * channels);
  const size window = filterHeight * line, wide = roundUp(window, tileColumns);
  const size pixels = batch * outHeight * outWidth;
  float *packedB = aligned(scratch), *packedA = packedB + wide * outChannels;
  float *products = packedA + pixelsAtOnce * outChannels, *rim = products + pixelsAtOnce * productStep;
  for (size k = 0; k < outChannels; k += blockDepth)
    pack(packedB + wide * k, filter + k, window, smaller(blockDepth, outChannels - k), outChannels, 1, tileColumns);
  for (size first = 0; first < pixels; first += pixelsAtOnce) {
    const size count = smaller(pixelsAtOnce, pixels - first);
    const size tall = roundUp(count, tileRows);
    for (size k = 0; k < outChannels; k += blockDepth)
      pack(packedA + tall * k, dy + first * outChannels + k, count, smaller(blockDepth, outChannels - k), outChannels, 1,
           tileRows);
    for (size j = 0; j < window; j += blockColumns) {
      const size columns = smaller(blockColumns, window - j);
      // Whole tiles: the padding of both operands is zero.
      for (size k = 0; k < outChannels; k += blockDepth) {
        const size deep = smaller(blockDepth, outChannels - k);
        multiplyBlock(packedA + tall * k, packedB + wide * k + j * deep, tall, roundUp(columns, tileColumns), deep,
                      products, productStep, k > 0, rim);
      }
      size ow = first % outWidth, oh = first / outWidth % outHeight, n = first / outWidth / outHeight;
      const int firstLine = (int)j / line, end = (int)(j + columns);
      for (size t = 0; t < count; t++) {
        const int y0 = (int)oh * strideHeight - top, x0 = (int)ow * strideWidth - left;
        const int from = insideFrom(x0, channels), to = insideTo(x0, width, channels, line);
        for (int kh = firstLine; kh * line < end; kh++) {
          const int y = y0 + kh, start = kh * line;
          if (y < 0 || y >= height) continue;
          const int low = start + from > (int)j ? start + from : (int)j, high = start + to < end ? start + to : end;
          float *target = dx + ((int)(n * height + y) * width + x0) * (int)channels + (low - start);
          if (low < high) add(target, products + t * productStep + low - j, high - low);
        }
        if (++ow == outWidth) {
          ow = 0;
          if (++oh == outHeight) oh = 0, n++;
        }
      }
    }
  }
}

// ---- gradient for the filter --------------------------------------------------------------------------

/** Floats of scratch that convFilterGradient needs. */
EXPORT(convFilterScratchFloats) size convFilterScratchFloats(size window, size outChannels) {
  if (outChannels < fewOutChannels) return window * outChannels;
  return blockDepth * (blockRows + blockColumns) + windowsAtOnce * windowStep + tileFloats + alignmentFloats;
}

/** For few output channels: each pixel of dy scales the lines of its window, which are added up. Four pixels at a time. */
static inline void fewFilterGradient(float *dw, const float *x, const float *dy, size batch, int height, int width,
                                     size channels, size outHeight, size outWidth, size outChannels,
                                     size filterHeight, size filterWidth, int strideHeight, int strideWidth, int top,
                                     int left, float *scratch) {
  const int line = (int)(filterWidth * channels);
  const size window = filterHeight * line;
  clear(scratch, window * outChannels);
  for (size row = 0; row < batch * outHeight; row++)
    for (size kh = 0; kh < filterHeight; kh++) {
      const int y = (int)(row % outHeight) * strideHeight - top + (int)kh;
      if (y < 0 || y >= height) continue;
      const float *image = x + (row / outHeight * height + y) * width * channels;
      const float *gradients = dy + row * outWidth * outChannels;
      float *sums = scratch + kh * line;
      for (size ow = 0; ow < outWidth;) {
        const int x0 = (int)ow * strideWidth - left;
        if (x0 >= 0 && ow + 4 <= outWidth && x0 + 3 * strideWidth + (int)filterWidth <= width) {
          for (size o = 0; o < outChannels; o++)
            addFourScaled(sums + o * window, image + x0 * (int)channels, strideWidth * (int)channels, line,
                          gradients + ow * outChannels + o, outChannels);
          ow += 4;
          continue;
        }
        const int from = insideFrom(x0, channels), to = insideTo(x0, width, channels, line);
        for (size o = 0; o < outChannels && from < to; o++)
          addScaled(sums + o * window + from, image + x0 * (int)channels + from, to - from,
                    gradients[ow * outChannels + o]);
        ow++;
      }
    }
  for (size m = 0; m < window; m++)
    for (size o = 0; o < outChannels; o++) dw[m * outChannels + o] = scratch[o * window + m];
}

/**
 * dw[filterHeight, filterWidth, channels, outChannels]: the gradient of a convolution for its filter, the product of the
 * transposed windows with dy. Only the windows of the current block are written to memory.
 */
EXPORT(convFilterGradient)
void convFilterGradient(float *dw, const float *x, const float *dy, size batch, int height, int width, size channels,
                        size outHeight, size outWidth, size outChannels, size filterHeight, size filterWidth,
                        int strideHeight, int strideWidth, int top, int left, float *scratch) {
  if (outChannels < fewOutChannels) {
    fewFilterGradient(dw, x, dy, batch, height, width, channels, outHeight, outWidth, outChannels, filterHeight,
                      filterWidth, strideHeight, strideWidth, top, left, scratch);
    return;
  }
  float *packedA = aligned(scratch), *packedB = packedA + blockRows * blockDepth;
  float *windows = packedB + blockColumns * blockDepth, *rim = windows + windowsAtOnce * windowStep;
  const int line = (int)(filterWidth * channels);
  const size rows = filterHeight * line, depth = batch * outHeight * outWidth;
  for (size j = 0; j < outChannels; j += blockColumns) {
    const size columns = smaller(blockColumns, outChannels - j);
    for (size k = 0; k < depth; k += blockDepth) {
      const size deep = smaller(blockDepth, depth - k);
      pack(packedB, dy + k * outChannels + j, columns, deep, 1, outChannels, tileColumns);
      for (size i = 0; i < rows; i += blockRows) {
        const size block = smaller(blockRows, rows - i);
        for (size d = 0; d < deep; d += windowsAtOnce) {
          const size count = smaller(windowsAtOnce, deep - d);
          gatherWindows(windows, x, k + d, count, outHeight, outWidth, height, width, (int)channels, strideHeight,
                        strideWidth, top, left, line, 1, 1, 1, (int)i, (int)block);
          for (size m = 0; m < block; m += tileRows) {
            float *panel = packedA + m * deep + d * tileRows;
            for (size t = 0; t < count; t++) copyPanel(panel + t * tileRows, windows + t * windowStep + m, tileRows);
          }
        }
        multiplyBlock(packedA, packedB, block, columns, deep, dw + i * outChannels + j, outChannels, k > 0, rim);
      }
    }
  }
}
