// The update of one variable by an optimizer, in one pass over its values. Results go to new memory: whoever still holds the old
// values, such as the last commit of an elastic job, keeps them. The formulas are those of TensorFlow.js, in the same order.

#include "vector.h"

// NOTE [Equal updates]. All ranks apply the same gradients, so their weights stay equal only if all of them round alike, whatever
// processor each has. So no product here is fused with an addition, and what remains (+, −, ×, ÷, √) is rounded in one way everywhere.
#if defined(__clang__)
#pragma clang fp contract(off)
#define UPDATE
#else
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#define UPDATE __attribute__((noinline)) // the caller may fuse
#endif

/** out = value + rate · gradient; the rate is negative. */
EXPORT(sgdUpdate)
UPDATE void sgdUpdate(float *restrict out, const float *restrict value, const float *restrict gradient, size count,
               float rate) {
  for (size i = 0; i < count; i++) out[i] = rate * gradient[i] + value[i];
}

EXPORT(momentumUpdate)
UPDATE void momentumUpdate(float *restrict out, float *restrict newSum, const float *restrict value,
                    const float *restrict sum, const float *restrict gradient, size count, float rate, float momentum,
                    int isNesterov) {
  for (size i = 0; i < count; i++) newSum[i] = momentum * sum[i] + gradient[i];
  if (isNesterov)
    for (size i = 0; i < count; i++) out[i] = rate * (gradient[i] + newSum[i] * momentum) + value[i];
  else
    for (size i = 0; i < count; i++) out[i] = rate * newSum[i] + value[i];
}

/** `correction1` and `correction2` are 1 − β¹ᵗ and 1 − β²ᵗ; `rest1` and `rest2` are 1 − β¹ and 1 − β². */
EXPORT(adamUpdate)
UPDATE void adamUpdate(float *restrict out, float *restrict newFirst, float *restrict newSecond, const float *restrict value,
                const float *restrict first, const float *restrict second, const float *restrict gradient, size count,
                float rate, float beta1, float beta2, float rest1, float rest2, float correction1, float correction2,
                float epsilon) {
  for (size i = 0; i < count; i++) {
    const float m = first[i] * beta1 + gradient[i] * rest1;
    const float v = second[i] * beta2 + gradient[i] * gradient[i] * rest2;
    newFirst[i] = m;
    newSecond[i] = v;
    out[i] = m / correction1 / (__builtin_sqrtf(v / correction2) + epsilon) * rate + value[i];
  }
}

/** `mean` and `newMean` are used if `isCentered`. */
EXPORT(rmsPropUpdate)
UPDATE void rmsPropUpdate(float *restrict out, float *restrict newSquare, float *restrict newMoment, float *restrict newMean,
                   const float *restrict value, const float *restrict square, const float *restrict moment,
                   const float *restrict mean, const float *restrict gradient, size count, float rate, float decay,
                   float rest, float momentum, float epsilon, int isCentered) {
  if (isCentered) {
    for (size i = 0; i < count; i++) {
      const float g = gradient[i], s = square[i] * decay + g * g * rest, m = mean[i] * decay + g * rest;
      const float moved = moment[i] * momentum + g * rate / __builtin_sqrtf(s - (m * m + epsilon));
      newSquare[i] = s;
      newMean[i] = m;
      newMoment[i] = moved;
      out[i] = value[i] - moved;
    }
    return;
  }
  for (size i = 0; i < count; i++) {
    const float g = gradient[i], s = square[i] * decay + g * g * rest;
    const float moved = moment[i] * momentum + g * rate / __builtin_sqrtf(s + epsilon);
    newSquare[i] = s;
    newMoment[i] = moved;
    out[i] = value[i] - moved;
  }
}

EXPORT(adagradUpdate)
UPDATE void adagradUpdate(float *restrict out, float *restrict newSum, const float *restrict value, const float *restrict sum,
                   const float *restrict gradient, size count, float rate, float epsilon) {
  for (size i = 0; i < count; i++) {
    const float s = sum[i] + gradient[i] * gradient[i];
    newSum[i] = s;
    out[i] = gradient[i] / __builtin_sqrtf(s + epsilon) * rate + value[i];
  }
}

#undef UPDATE
#if defined(__clang__)
#pragma clang fp contract(on)
#else
#pragma GCC pop_options
#endif
