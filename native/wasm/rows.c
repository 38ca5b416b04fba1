// Kernels over matrices [rows, columns], row by row: biases, activations and their gradients, sums.

#include "vector.h"

enum { linear = 0, relu = 1, relu6 = 2, leakyRelu = 3 };

/**
 * x = activation(x + row), for each row of x; `hasRow`: whether there is a row to add, as a bias. NaN stays NaN. `slope` is that of
 * leakyRelu below zero.
 */
EXPORT(finishRows)
void finishRows(float *restrict x, const float *restrict row, size rows, size columns, int hasRow, int activation,
                float slope) {
  for (size r = 0; r < rows; r++, x += columns) {
    if (hasRow) add(x, row, (int)columns);
    if (activation == relu)
      for (size c = 0; c < columns; c++) x[c] = x[c] < 0 ? 0 : x[c];
    else if (activation == relu6)
      for (size c = 0; c < columns; c++) x[c] = x[c] < 0 ? 0 : x[c] > 6 ? 6 : x[c];
    else if (activation == leakyRelu)
      for (size c = 0; c < columns; c++) x[c] = x[c] < 0 ? slope * x[c] : x[c];
  }
}

/** out = x + row, for each row of x. */
EXPORT(addRow)
void addRow(float *restrict out, const float *restrict x, const float *restrict row, size rows, size columns) {
  for (size r = 0; r < rows; r++, x += columns, out += columns)
    for (size c = 0; c < columns; c++) out[c] = x[c] + row[c];
}

/** NaN stays NaN. */
EXPORT(reluOf)
void reluOf(float *restrict out, const float *restrict x, size count) {
  for (size i = 0; i < count; i++) out[i] = x[i] < 0 ? 0 : x[i];
}

/** dx = dy · step(x), as TensorFlow.js computes it: a NaN of x or an infinity of dy gives NaN. */
EXPORT(reluGradient)
void reluGradient(float *restrict dx, const float *restrict dy, const float *restrict x, size count) {
  for (size i = 0; i < count; i++) dx[i] = dy[i] * (x[i] > 0 ? 1 : x[i] <= 0 ? 0 : x[i]);
}

/** out[columns] = the sum of the rows of x. Each 64 rows are summed before they are added to the total, which rounds less. */
EXPORT(sumRows)
void sumRows(float *out, const float *x, size rows, size columns) {
  size c = 0;
  for (; c + 2 * lanes <= columns; c += 2 * lanes) {
    Vector total0 = zero(), total1 = zero();
    for (size row = 0; row < rows;) {
      const size end = smaller(rows, row + 64);
      Vector part0 = zero(), part1 = zero();
      for (; row < end; row++) {
        part0 += load(x + row * columns + c);
        part1 += load(x + row * columns + c + lanes);
      }
      total0 += part0;
      total1 += part1;
    }
    store(out + c, total0);
    store(out + c + lanes, total1);
  }
  for (; c < columns; c++) {
    float total = 0;
    for (size row = 0; row < rows;) {
      const size end = smaller(rows, row + 64);
      float part = 0;
      for (; row < end; row++) part += x[row * columns + c];
      total += part;
    }
    out[c] = total;
  }
}
