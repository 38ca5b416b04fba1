// Convolutions with 3 × 3 filters and stride 1 by Winograd's algorithm F(2 × 2, 3 × 3): Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks" (2015). A tile of 4 × 4 inputs gives 2 × 2 outputs with 16 multiplications instead of 36:
// input and filter are transformed by matrices of 0, ±1 and ½, multiplied in 16 matrix products over the channels (one for
// each *place* of the tile), and the products are transformed into the output. The number of channels is a multiple of 4.
// Some dozens of tiles are processed at a time, so that they stay in the cache.

#include "product.h"

#define places 16u
#define tilesAtOnce (tileRows == 6 ? 48u : 64u)

/** Where a vector of channels begins. The last one overlaps the one before if the channels are no multiple of its lanes. */
INLINE size vectorAt(size next, size channels) { return smaller(next, channels - lanes); }

/** Floats from one place of a tile to the next. Not a power of two, because the 16 places would share cache sets. */
INLINE size placeStep(size channels) { return tilesAtOnce * channels + 32; }

/** Floats of scratch that both kernels need. */
EXPORT(winogradScratchFloats) size winogradScratchFloats(size channels, size outChannels) {
  const size wide = roundUp(outChannels, tileColumns);
  return places * (channels * outChannels + channels * wide + placeStep(channels) + placeStep(outChannels)) +
         tilesAtOnce * (roundUp(channels, tileRows) + wide) + tileFloats + alignmentFloats;
}

/** Transforms the tile with its corner at (y0, x0). `inside`: the whole tile lies in the image. */
INLINE void transformTile(float *to, size step, const float *image, int y0, int x0, int height, int width, size channels,
                          int inside) {
  for (size next = 0; next < channels; next += lanes) {
    const size c = vectorAt(next, channels);
    Vector d[4][4], b[4][4];
    UNROLL for (int i = 0; i < 4; i++)
      UNROLL for (int j = 0; j < 4; j++) {
        const int isHere = inside || (y0 + i >= 0 && y0 + i < height && x0 + j >= 0 && x0 + j < width);
        d[i][j] = isHere ? load(image + ((y0 + i) * width + x0 + j) * (int)channels + (int)c) : zero();
      }
    UNROLL for (int j = 0; j < 4; j++) {
      b[0][j] = d[0][j] - d[2][j];
      b[1][j] = d[1][j] + d[2][j];
      b[2][j] = d[2][j] - d[1][j];
      b[3][j] = d[1][j] - d[3][j];
    }
    UNROLL for (int i = 0; i < 4; i++) {
      store(to + (4 * i + 0) * step + c, b[i][0] - b[i][2]);
      store(to + (4 * i + 1) * step + c, b[i][1] + b[i][2]);
      store(to + (4 * i + 2) * step + c, b[i][2] - b[i][1]);
      store(to + (4 * i + 3) * step + c, b[i][1] - b[i][3]);
    }
  }
}

/** Transforms `count` tiles, beginning with `first`, into transformed[place][tile][channel]. */
static void transformInput(float *transformed, const float *x, size first, size count, int height, int width,
                           size channels, size tilesY, size tilesX, int top, int left) {
  const size step = placeStep(channels);
  for (size t = 0; t < count; t++) {
    const size index = first + t;
    const int y0 = (int)(index / tilesX % tilesY) * 2 - top, x0 = (int)(index % tilesX) * 2 - left;
    const float *image = x + index / tilesX / tilesY * height * width * channels;
    float *to = transformed + t * channels;
    if (y0 >= 0 && y0 + 4 <= height && x0 >= 0 && x0 + 4 <= width)
      transformTile(to, step, image, y0, x0, height, width, channels, 1);
    else
      transformTile(to, step, image, y0, x0, height, width, channels, 0);
  }
}

/** Into transformed[place][channel][outChannel]; `turned` as below. */
INLINE void transformFilter(float *transformed, const float *filter, size channels, size outChannels, int turned) {
  const size weights = channels * outChannels;
  for (size c = 0; c < channels; c++)
    for (size o = 0; o < outChannels; o++) {
      float g[3][3], h[4][3];
      UNROLL for (size i = 0; i < 3; i++)
        UNROLL for (size j = 0; j < 3; j++)
          g[i][j] = turned ? filter[((2 - i) * 3 + 2 - j) * weights + o * channels + c]
                           : filter[(i * 3 + j) * weights + c * outChannels + o];
      UNROLL for (int j = 0; j < 3; j++) {
        h[0][j] = g[0][j];
        h[1][j] = 0.5f * (g[0][j] + g[1][j] + g[2][j]);
        h[2][j] = 0.5f * (g[0][j] - g[1][j] + g[2][j]);
        h[3][j] = g[2][j];
      }
      float *to = transformed + c * outChannels + o;
      UNROLL for (size i = 0; i < 4; i++) {
        to[(4 * i + 0) * weights] = h[i][0];
        to[(4 * i + 1) * weights] = 0.5f * (h[i][0] + h[i][1] + h[i][2]);
        to[(4 * i + 2) * weights] = 0.5f * (h[i][0] - h[i][1] + h[i][2]);
        to[(4 * i + 3) * weights] = h[i][2];
      }
    }
}

/**
 * out[batch, outHeight, outWidth, outChannels] = x convolved with filter[3, 3, channels, outChannels]; or, if `turned`,
 * with filter[3, 3, outChannels, channels] rotated by 180 degrees, which gives the gradient for the input.
 */
EXPORT(winogradConvolution)
void winogradConvolution(float *out, const float *x, const float *filter, size batch, int height, int width,
                         size channels, size outHeight, size outWidth, size outChannels, int top, int left,
                         int turned, float *scratch) {
  const size wide = roundUp(outChannels, tileColumns), weights = channels * outChannels;
  float *plain = aligned(scratch), *packedB = plain + places * weights;
  float *inputs = packedB + places * channels * wide, *products = inputs + places * placeStep(channels);
  float *packedA = products + places * placeStep(outChannels);
  float *rim = packedA + tilesAtOnce * (roundUp(channels, tileRows) + wide);
  if (turned) transformFilter(plain, filter, channels, outChannels, 1);
  else transformFilter(plain, filter, channels, outChannels, 0);
  for (size e = 0; e < places; e++)
    pack(packedB + e * channels * wide, plain + e * weights, outChannels, channels, 1, outChannels, tileColumns);

  const size tilesY = (outHeight + 1) / 2, tilesX = (outWidth + 1) / 2, tiles = batch * tilesY * tilesX;
  const size step = placeStep(outChannels);
  for (size first = 0; first < tiles; first += tilesAtOnce) {
    const size count = smaller(tilesAtOnce, tiles - first);
    transformInput(inputs, x, first, count, height, width, channels, tilesY, tilesX, top, left);
    for (size e = 0; e < places; e++) {
      pack(packedA, inputs + e * placeStep(channels), count, channels, channels, 1, tileRows);
      multiplyBlock(packedA, packedB + e * channels * wide, count, outChannels, channels, products + e * step,
                    outChannels, 0, rim);
    }
    for (size t = 0; t < count; t++) {
      const size index = first + t, y = index / tilesX % tilesY * 2, xx = index % tilesX * 2;
      float *to = out + ((index / tilesX / tilesY * outHeight + y) * outWidth + xx) * outChannels;
      const int hasRow = y + 1 < outHeight, hasColumn = xx + 1 < outWidth;
      for (size next = 0; next < outChannels; next += lanes) {
        const size o = vectorAt(next, outChannels);
        Vector r[2][4];
        UNROLL for (int j = 0; j < 4; j++) {
          const float *from = products + t * outChannels + o + j * step;
          const Vector m0 = load(from), m1 = load(from + 4 * step);
          const Vector m2 = load(from + 8 * step), m3 = load(from + 12 * step);
          r[0][j] = m0 + m1 + m2;
          r[1][j] = m1 - m2 - m3;
        }
        store(to + o, r[0][0] + r[0][1] + r[0][2]);
        if (hasColumn) store(to + outChannels + o, r[0][1] - r[0][2] - r[0][3]);
        if (!hasRow) continue;
        float *below = to + outWidth * outChannels;
        store(below + o, r[1][0] + r[1][1] + r[1][2]);
        if (hasColumn) store(below + outChannels + o, r[1][1] - r[1][2] - r[1][3]);
      }
    }
  }
}

/** dw[3, 3, channels, outChannels]: the gradient of the convolution for its filter. */
EXPORT(winogradFilterGradient)
void winogradFilterGradient(float *dw, const float *x, const float *dy, size batch, int height, int width,
                            size channels, size outHeight, size outWidth, size outChannels, int top, int left,
                            float *scratch) {
  const size wide = roundUp(outChannels, tileColumns), weights = channels * outChannels;
  float *sums = aligned(scratch), *inputs = sums + places * weights, *gradients = inputs + places * placeStep(channels);
  float *packedA = gradients + places * placeStep(outChannels);
  float *packedB = packedA + tilesAtOnce * roundUp(channels, tileRows), *rim = packedB + tilesAtOnce * wide;
  const size tilesY = (outHeight + 1) / 2, tilesX = (outWidth + 1) / 2, tiles = batch * tilesY * tilesX;
  const size step = placeStep(outChannels);
  for (size first = 0; first < tiles; first += tilesAtOnce) {
    const size count = smaller(tilesAtOnce, tiles - first);
    transformInput(inputs, x, first, count, height, width, channels, tilesY, tilesX, top, left);
    for (size t = 0; t < count; t++) {
      const size index = first + t, y = index / tilesX % tilesY * 2, xx = index % tilesX * 2;
      const float *from = dy + ((index / tilesX / tilesY * outHeight + y) * outWidth + xx) * outChannels;
      const int hasRow = y + 1 < outHeight, hasColumn = xx + 1 < outWidth;
      for (size next = 0; next < outChannels; next += lanes) {
        const size o = vectorAt(next, outChannels);
        const Vector d00 = load(from + o);
        const Vector d01 = hasColumn ? load(from + outChannels + o) : zero();
        const float *below = from + outWidth * outChannels + o;
        const Vector d10 = hasRow ? load(below) : zero();
        const Vector d11 = hasRow && hasColumn ? load(below + outChannels) : zero();
        const Vector left4[4] = {d00, d00 + d10, d00 - d10, -d10};
        const Vector right4[4] = {d01, d01 + d11, d01 - d11, -d11};
        float *to = gradients + t * outChannels + o;
        UNROLL for (int i = 0; i < 4; i++) {
          store(to + (4 * i + 0) * step, left4[i]);
          store(to + (4 * i + 1) * step, left4[i] + right4[i]);
          store(to + (4 * i + 2) * step, left4[i] - right4[i]);
          store(to + (4 * i + 3) * step, -right4[i]);
        }
      }
    }
    for (size e = 0; e < places; e++) {
      pack(packedA, inputs + e * placeStep(channels), channels, count, 1, channels, tileRows);
      pack(packedB, gradients + e * step, outChannels, count, 1, outChannels, tileColumns);
      multiplyBlock(packedA, packedB, channels, outChannels, count, sums + e * weights, outChannels, first > 0, rim);
    }
  }
  for (size i = 0; i < weights; i++) {
    float h[3][4];
    UNROLL for (int j = 0; j < 4; j++) {
      const float p0 = sums[j * weights + i], p1 = sums[(4 + j) * weights + i];
      const float p2 = sums[(8 + j) * weights + i], p3 = sums[(12 + j) * weights + i];
      h[0][j] = p0 + 0.5f * (p1 + p2);
      h[1][j] = 0.5f * (p1 - p2);
      h[2][j] = 0.5f * (p1 + p2) + p3;
    }
    UNROLL for (int k = 0; k < 3; k++) {
      dw[(3 * k + 0) * weights + i] = h[k][0] + 0.5f * (h[k][1] + h[k][2]);
      dw[(3 * k + 1) * weights + i] = 0.5f * (h[k][1] - h[k][2]);
      dw[(3 * k + 2) * weights + i] = 0.5f * (h[k][1] + h[k][2]) + h[k][3];
    }
  }
}
