// Depthwise convolutions, [filterHeight, filterWidth, channels, multiplier], and their gradients: each channel of the image has filters of
// its own, and there are channels · multiplier output channels.

#include "vector.h"

EXPORT(depthwiseConvolution)
void depthwiseConvolution(float *restrict out, const float *restrict x, const float *restrict filter, size batch,
                          int height, int width, size channels, size multiplier, size outHeight, size outWidth,
                          size filterHeight, size filterWidth, int strideHeight, int strideWidth, int dilationHeight,
                          int dilationWidth, int top, int left) {
  const size outChannels = channels * multiplier;
  for (size n = 0; n < batch; n++)
    for (size oh = 0; oh < outHeight; oh++)
      for (size ow = 0; ow < outWidth; ow++, out += outChannels) {
        clear(out, outChannels);
        for (size kh = 0; kh < filterHeight; kh++) {
          const int y = (int)oh * strideHeight - top + (int)kh * dilationHeight;
          if (y < 0 || y >= height) continue;
          for (size kw = 0; kw < filterWidth; kw++) {
            const int xx = (int)ow * strideWidth - left + (int)kw * dilationWidth;
            if (xx < 0 || xx >= width) continue;
            const float *from = x + ((n * height + y) * width + xx) * channels;
            const float *weights = filter + (kh * filterWidth + kw) * outChannels;
            if (multiplier == 1)
              for (size c = 0; c < channels; c++) out[c] += from[c] * weights[c];
            else
              for (size c = 0; c < channels; c++)
                for (size q = 0; q < multiplier; q++) out[c * multiplier + q] += from[c] * weights[c * multiplier + q];
          }
        }
      }
}

/** Gradient of a depthwise convolution for its filter, [filterHeight, filterWidth, channels, multiplier]. */
EXPORT(depthwiseFilterGradient)
void depthwiseFilterGradient(float *restrict dw, const float *restrict x, const float *restrict dy, size batch, int height, int width,
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
void depthwiseInputGradient(float *restrict dx, const float *restrict filter, const float *restrict dy, size batch, int height, int width,
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
