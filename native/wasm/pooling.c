// Max and average pooling over images [batch, height, width, channels], and their gradients.

#include "vector.h"

/** The part of a window that lies inside the image, along one axis. */
typedef struct {
  int first, end;
} Range;

INLINE Range inside(size place, int stride, int before, int filter, int extent) {
  const int start = (int)place * stride - before, end = start + filter;
  return (Range){start < 0 ? 0 : start, end > extent ? extent : end};
}

/** The largest value of each window; −∞ if all are NaN. */
EXPORT(maxPool)
void maxPool(float *out, const float *x, size batch, int height, int width, size channels, size outHeight,
             size outWidth, int filterHeight, int filterWidth, int strideHeight, int strideWidth, int top, int left) {
  for (size n = 0; n < batch; n++)
    for (size oh = 0; oh < outHeight; oh++) {
      const Range rows = inside(oh, strideHeight, top, filterHeight, height);
      for (size ow = 0; ow < outWidth; ow++, out += channels) {
        const Range columns = inside(ow, strideWidth, left, filterWidth, width);
        size c = 0;
        for (; c + lanes <= channels; c += lanes) {
          Vector best = splat(-__builtin_inff());
          for (int r = rows.first; r < rows.end; r++)
            for (int w = columns.first; w < columns.end; w++) {
              const Vector value = load(x + ((n * height + r) * width + w) * channels + c);
              best = choose(value > best, value, best);
            }
          store(out + c, best);
        }
        for (; c < channels; c++) {
          float best = -__builtin_inff();
          for (int r = rows.first; r < rows.end; r++)
            for (int w = columns.first; w < columns.end; w++) {
              const float value = x[((n * height + r) * width + w) * channels + c];
              if (value > best) best = value;
            }
          out[c] = best;
        }
      }
    }
}

/** Gradient of max pooling. The gradient of a window goes to its first largest value; if all are NaN, to none. */
EXPORT(maxPoolGradient)
void maxPoolGradient(float *dx, const float *x, const float *dy, size batch, int height, int width, size channels,
                     size outHeight, size outWidth, int filterHeight, int filterWidth, int strideHeight,
                     int strideWidth, int top, int left) {
  clear(dx, batch * height * width * channels);
  for (size n = 0; n < batch; n++)
    for (size oh = 0; oh < outHeight; oh++) {
      const Range rows = inside(oh, strideHeight, top, filterHeight, height);
      for (size ow = 0; ow < outWidth; ow++, dy += channels) {
        const Range columns = inside(ow, strideWidth, left, filterWidth, width);
        size c = 0;
        for (; c + lanes <= channels; c += lanes) {
          Vector best = splat(-__builtin_inff());
          Mask place = (Mask){0} - 1;
          for (int r = rows.first; r < rows.end; r++)
            for (int w = columns.first; w < columns.end; w++) {
              const Vector value = load(x + ((n * height + r) * width + w) * channels + c);
              const Mask isLarger = value > best;
              best = choose(isLarger, value, best);
              place = (((Mask){0} + (r * width + w)) & isLarger) | (place & ~isLarger);
            }
          const Vector gradient = load(dy + c);
          for (int r = rows.first; r < rows.end; r++)
            for (int w = columns.first; w < columns.end; w++) {
              float *to = dx + ((n * height + r) * width + w) * channels + c;
              store(to, load(to) + choose(place == r * width + w, gradient, zero()));
            }
        }
        for (; c < channels; c++) {
          float best = -__builtin_inff();
          int place = -1;
          for (int r = rows.first; r < rows.end; r++)
            for (int w = columns.first; w < columns.end; w++) {
              const float value = x[((n * height + r) * width + w) * channels + c];
              if (value > best) best = value, place = r * width + w;
            }
          if (place >= 0) dx[(n * height * width + place) * channels + c] += dy[c];
        }
      }
    }
}

/** The mean of the values of each window; padding does not count. */
EXPORT(averagePool)
void averagePool(float *out, const float *x, size batch, int height, int width, size channels, size outHeight,
                 size outWidth, int filterHeight, int filterWidth, int strideHeight, int strideWidth, int top,
                 int left) {
  for (size n = 0; n < batch; n++)
    for (size oh = 0; oh < outHeight; oh++) {
      const Range rows = inside(oh, strideHeight, top, filterHeight, height);
      for (size ow = 0; ow < outWidth; ow++, out += channels) {
        const Range columns = inside(ow, strideWidth, left, filterWidth, width);
        const float count = (float)((rows.end - rows.first) * (columns.end - columns.first));
        clear(out, channels);
        for (int r = rows.first; r < rows.end; r++)
          for (int w = columns.first; w < columns.end; w++)
            add(out, x + ((n * height + r) * width + w) * channels, (int)channels);
        for (size c = 0; c < channels; c++) out[c] /= count;
      }
    }
}

/** Gradient of average pooling. Like the cpu backend's, it divides by the size of the whole window, with its padding. */
EXPORT(averagePoolGradient)
void averagePoolGradient(float *dx, const float *dy, size batch, int height, int width, size channels, size outHeight,
                         size outWidth, int filterHeight, int filterWidth, int strideHeight, int strideWidth, int top,
                         int left) {
  const float share = 1 / (float)(filterHeight * filterWidth);
  clear(dx, batch * height * width * channels);
  for (size n = 0; n < batch; n++)
    for (size oh = 0; oh < outHeight; oh++) {
      const Range rows = inside(oh, strideHeight, top, filterHeight, height);
      for (size ow = 0; ow < outWidth; ow++, dy += channels) {
        const Range columns = inside(ow, strideWidth, left, filterWidth, width);
        for (int r = rows.first; r < rows.end; r++)
          for (int w = columns.first; w < columns.end; w++)
            addScaled(dx + ((n * height + r) * width + w) * channels, dy, (int)channels, share);
      }
    }
}
