// The training kernels of every instruction set that this processor has, against sums in double precision. Each operand lies in memory of
// exactly its size, so that the sanitizers notice a float read or written outside.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "compute/kernel-set.h"

using namespace hvd::compute;

namespace {

using Floats = std::vector<float>;

Floats some(size_t count, uint32_t seed) {
  Floats list(count);
  for (float& value : list) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed) / 0x1p31f - 1;
  }
  list.shrink_to_fit();
  return list;
}

double at(const Floats& list) { return static_cast<double>(reinterpret_cast<uintptr_t>(list.data())); }

const Kernel& kernel(const KernelSet& set, const char* name) {
  for (size_t i = 0; i < set.count; i++)
    if (std::strcmp(set.kernels[i].name, name) == 0) return set.kernels[i];
  throw std::runtime_error(std::string("no kernel ") + name);
}

double run(const KernelSet& set, const char* name, const std::vector<double>& values) {
  const Kernel& found = kernel(set, name);
  CHECK(found.arguments == values.size());
  CHECK(found.has_types(values.data()));
  return found.run(nullptr, values.data());
}

void check_close(const Floats& found, const std::vector<double>& expected, double scale) {
  CHECK(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); i++) CHECK(std::fabs(found[i] - expected[i]) <= 1e-6 * scale);
}

template <class Body>
void each_set(Body body) {
  for (const char* name : {"baseline", "neon", "avx2", "avx512"})
    if (const KernelSet* set = kernel_set(name)) body(*set);
}

struct Image {
  int batch, height, width, channels;
  size_t size() const { return static_cast<size_t>(batch) * height * width * channels; }
};

struct Convolution {
  Image in;
  int filter_height, filter_width, out_channels, stride, dilation, top, left, out_height, out_width;

  size_t results() const { return static_cast<size_t>(in.batch) * out_height * out_width * out_channels; }
  size_t window() const { return static_cast<size_t>(filter_height) * filter_width * in.channels; }

  // Calls visit(index into x, into the filter, into the result) for every product.
  template <class Visit>
  void each_product(Visit visit) const {
    for (int n = 0; n < in.batch; n++)
      for (int oh = 0; oh < out_height; oh++)
        for (int ow = 0; ow < out_width; ow++)
          for (int kh = 0; kh < filter_height; kh++)
            for (int kw = 0; kw < filter_width; kw++) {
              const int y = oh * stride - top + kh * dilation, x = ow * stride - left + kw * dilation;
              if (y < 0 || y >= in.height || x < 0 || x >= in.width) continue;
              for (int c = 0; c < in.channels; c++)
                for (int o = 0; o < out_channels; o++)
                  visit(((n * in.height + y) * in.width + x) * in.channels + c,
                        ((kh * filter_width + kw) * in.channels + c) * out_channels + o,
                        ((n * out_height + oh) * out_width + ow) * out_channels + o);
            }
  }
  std::vector<double> extents() const {
    return {double(in.batch),   double(in.height),     double(in.width),     double(in.channels),
            double(out_height), double(out_width),     double(out_channels), double(filter_height),
            double(filter_width), double(stride),      double(stride),       double(top), double(left)};
  }
};

std::vector<double> arguments(std::vector<double> pointers, const std::vector<double>& rest, std::vector<double> last) {
  pointers.insert(pointers.end(), rest.begin(), rest.end());
  pointers.insert(pointers.end(), last.begin(), last.end());
  return pointers;
}

const Convolution convolutions[] = {
    {{2, 7, 6, 3}, 3, 2, 9, 1, 1, 1, 0, 7, 5},    {{1, 9, 8, 5}, 3, 3, 11, 2, 1, 0, 1, 4, 4},
    {{2, 9, 9, 2}, 3, 3, 9, 1, 2, 2, 2, 9, 9},    {{2, 6, 7, 3}, 5, 4, 3, 1, 1, 2, 1, 6, 6},
    {{1, 8, 8, 1}, 4, 4, 1, 2, 1, 1, 1, 4, 4},    {{1, 5, 5, 20}, 3, 3, 33, 1, 1, 4, 4, 11, 11},
    {{3, 6, 6, 1}, 1, 1, 13, 3, 1, 0, 0, 2, 2},
};

}  // namespace

TEST("products of every shape and transposition") {
  each_set([](const KernelSet& set) {
    Floats scratch(static_cast<size_t>(run(set, "scratchFloats", {})));
    const int shapes[][3] = {{1, 1, 1},  {1, 37, 5}, {3, 9, 300}, {4, 40, 7},   {5, 3, 2},   {6, 16, 8},
                             {7, 33, 17}, {8, 32, 4}, {13, 65, 31}, {390, 9, 3}, {9, 520, 6}, {2, 1, 600}};
    for (const auto& [rows, columns, depth] : shapes)
      for (int way = 0; way < 4; way++) {
        const bool turns_a = way & 1, turns_b = way & 2;
        const Floats a = some(rows * depth, 1), b = some(depth * columns, 2);
        Floats c = some(rows * columns, 3);
        const double a_row = turns_a ? 1 : depth, a_depth = turns_a ? rows : 1;
        const double b_depth = turns_b ? 1 : columns, b_column = turns_b ? depth : 1;
        run(set, "matMul", {at(c), at(a), at(b), double(rows), double(columns), double(depth), a_row, a_depth, b_depth,
                            b_column, at(scratch)});
        std::vector<double> expected(c.size());
        for (int i = 0; i < rows; i++)
          for (int j = 0; j < columns; j++)
            for (int k = 0; k < depth; k++)
              expected[i * columns + j] += double(a[size_t(i * a_row + k * a_depth)]) * b[size_t(k * b_depth + j * b_column)];
        check_close(c, expected, depth);
      }
  });
}

TEST("convolutions and their gradients") {
  each_set([](const KernelSet& set) {
    for (const Convolution& one : convolutions) {
      const double window = double(one.window()), out_channels = one.out_channels;
      const Floats x = some(one.in.size(), 1), filter = some(one.window() * one.out_channels, 2);
      const Floats dy = some(one.results(), 3);
      Floats y(one.results(), 7), dx(x.size(), 7), dw(filter.size(), 7);
      std::vector<double> expected_y(y.size()), expected_dx(x.size()), expected_dw(filter.size());
      one.each_product([&](size_t from, size_t weight, size_t to) {
        expected_y[to] += double(x[from]) * filter[weight];
        expected_dx[from] += double(dy[to]) * filter[weight];
        expected_dw[weight] += double(dy[to]) * x[from];
      });
      Floats scratch(static_cast<size_t>(run(set, "convScratchFloats", {window, out_channels})));
      run(set, "convolution", arguments({at(y), at(x), at(filter)}, one.extents(),
                                        {double(one.dilation), double(one.dilation), at(scratch)}));
      check_close(y, expected_y, window);
      if (one.dilation != 1) continue;
      scratch = Floats(static_cast<size_t>(
          run(set, "convInputScratchFloats", {window, out_channels, double(one.in.channels)})));
      run(set, "convInputGradient", arguments({at(dx), at(dy), at(filter)}, one.extents(), {at(scratch)}));
      check_close(dx, expected_dx, window * out_channels);
      scratch = Floats(static_cast<size_t>(run(set, "convFilterScratchFloats", {window, out_channels})));
      run(set, "convFilterGradient", arguments({at(dw), at(x), at(dy)}, one.extents(), {at(scratch)}));
      check_close(dw, expected_dw, double(one.results()));
    }
  });
}

TEST("winograd convolutions and their gradients") {
  each_set([](const KernelSet& set) {
    const Convolution one{{2, 9, 7, 20}, 3, 3, 28, 1, 1, 1, 0, 9, 5};
    const Floats x = some(one.in.size(), 1), filter = some(one.window() * one.out_channels, 2), dy = some(one.results(), 3);
    Floats y(one.results(), 7), dx(x.size(), 7), dw(filter.size(), 7);
    std::vector<double> expected_y(y.size()), expected_dx(x.size()), expected_dw(filter.size());
    one.each_product([&](size_t from, size_t weight, size_t to) {
      expected_y[to] += double(x[from]) * filter[weight];
      expected_dx[from] += double(dy[to]) * filter[weight];
      expected_dw[weight] += double(dy[to]) * x[from];
    });
    Floats scratch(static_cast<size_t>(run(set, "winogradScratchFloats", {20, 28})));
    run(set, "winogradConvolution",
        {at(y), at(x), at(filter), 2, 9, 7, 20, 9, 5, 28, 1, 0, 0, at(scratch)});
    check_close(y, expected_y, 180);
    scratch = Floats(static_cast<size_t>(run(set, "winogradScratchFloats", {28, 20})));
    run(set, "winogradConvolution",
        {at(dx), at(dy), at(filter), 2, 9, 5, 28, 9, 7, 20, 1, 2, 1, at(scratch)});
    check_close(dx, expected_dx, 252);
    scratch = Floats(static_cast<size_t>(run(set, "winogradScratchFloats", {20, 28})));
    run(set, "winogradFilterGradient", {at(dw), at(x), at(dy), 2, 9, 7, 20, 9, 5, 28, 1, 0, at(scratch)});
    check_close(dw, expected_dw, 90);
  });
}

TEST("depthwise convolutions and their gradients") {
  each_set([](const KernelSet& set) {
    for (const int multiplier : {1, 2}) {
      const int channels = 19, height = 6, width = 5, out_height = 5, out_width = 3;
      const Floats x = some(2 * height * width * channels, 1), filter = some(3 * 2 * channels * multiplier, 2);
      const Floats dy = some(2 * out_height * out_width * channels * multiplier, 3);
      Floats y(dy.size(), 7), dx(x.size(), 7), dw(filter.size(), 7);
      std::vector<double> expected_y(y.size()), expected_dx(x.size()), expected_dw(filter.size());
      for (int n = 0; n < 2; n++)
        for (int oh = 0; oh < out_height; oh++)
          for (int ow = 0; ow < out_width; ow++)
            for (int kh = 0; kh < 3; kh++)
              for (int kw = 0; kw < 2; kw++) {
                const int row = oh - 1 + kh, column = ow * 2 - 1 + kw * 2;
                if (row < 0 || row >= height || column < 0 || column >= width) continue;
                for (int o = 0; o < channels * multiplier; o++) {
                  const size_t from = ((n * height + row) * width + column) * channels + o / multiplier;
                  const size_t weight = (kh * 2 + kw) * channels * multiplier + o;
                  const size_t to = ((n * out_height + oh) * out_width + ow) * channels * multiplier + o;
                  expected_y[to] += double(x[from]) * filter[weight];
                  expected_dx[from] += double(dy[to]) * filter[weight];
                  expected_dw[weight] += double(dy[to]) * x[from];
                }
              }
      const std::vector<double> rest = {2, double(height), double(width), double(channels), double(multiplier),
                                        double(out_height), double(out_width), 3, 2, 1, 2, 1, 2, 1, 1};
      run(set, "depthwiseConvolution", arguments({at(y), at(x), at(filter)}, rest, {}));
      run(set, "depthwiseFilterGradient", arguments({at(dw), at(x), at(dy)}, rest, {}));
      run(set, "depthwiseInputGradient", arguments({at(dx), at(filter), at(dy)}, rest, {}));
      check_close(y, expected_y, 12);
      check_close(dx, expected_dx, 24);
      check_close(dw, expected_dw, 60);
    }
  });
}

TEST("pools and their gradients") {
  each_set([](const KernelSet& set) {
    const int channels = 37, height = 5, width = 6, out_height = 3, out_width = 3;
    Floats x = some(2 * height * width * channels, 1);
    x[3] = NAN;
    const Floats dy = some(2 * out_height * out_width * channels, 2);
    Floats largest(dy.size(), 7), mean(dy.size(), 7), of_largest(x.size(), 7), of_mean(x.size(), 7);
    const std::vector<double> rest = {2, double(height), double(width), double(channels), double(out_height),
                                      double(out_width), 3, 3, 2, 2, 1, 1};
    run(set, "maxPool", arguments({at(largest), at(x)}, rest, {}));
    run(set, "maxPoolGradient", arguments({at(of_largest), at(x), at(dy)}, rest, {}));
    run(set, "averagePoolGradient", arguments({at(of_mean), at(dy)}, rest, {}));
    x[3] = 0.5;
    run(set, "averagePool", arguments({at(mean), at(x)}, rest, {}));
    x[3] = NAN;
    std::vector<double> expected_largest, expected_mean, expected_of_largest(x.size()), expected_of_mean(x.size());
    for (int n = 0; n < 2; n++)
      for (int oh = 0; oh < out_height; oh++)
        for (int ow = 0; ow < out_width; ow++)
          for (int c = 0; c < channels; c++) {
            double best = -INFINITY, total = 0, count = 0;
            size_t place = 0;
            for (int row = std::max(0, oh * 2 - 1); row < std::min(height, oh * 2 + 2); row++)
              for (int column = std::max(0, ow * 2 - 1); column < std::min(width, ow * 2 + 2); column++) {
                const size_t i = ((n * height + row) * width + column) * channels + c;
                if (x[i] > best) best = x[i], place = i;
                total += i == 3 ? 0.5 : x[i];
                count++;
                expected_of_mean[i] += dy[expected_mean.size()] / 9.0;
              }
            expected_of_largest[place] += dy[expected_mean.size()];
            expected_largest.push_back(best);
            expected_mean.push_back(total / count);
          }
    check_close(largest, expected_largest, 1);
    check_close(mean, expected_mean, 1);
    check_close(of_largest, expected_of_largest, 4);
    check_close(of_mean, expected_of_mean, 4);
  });
}

TEST("rows: sums, biases, activations and the gradient of relu") {
  each_set([](const KernelSet& set) {
    const size_t rows = 70, columns = 37;
    const Floats x = some(rows * columns, 1), row = some(columns, 2), dy = some(x.size(), 3);
    Floats sums(columns, 7), sum(x.size(), 7), positive(x.size(), 7), dx(x.size(), 7), finished = x;
    run(set, "sumRows", {at(sums), at(x), double(rows), double(columns)});
    run(set, "addRow", {at(sum), at(x), at(row), double(rows), double(columns)});
    run(set, "reluOf", {at(positive), at(x), double(x.size())});
    run(set, "reluGradient", {at(dx), at(dy), at(x), double(x.size())});
    run(set, "finishRows", {at(finished), at(row), double(rows), double(columns), 1, 3, 0.25});
    std::vector<double> total(columns), added, cut, passed, leaky;
    for (size_t i = 0; i < x.size(); i++) {
      const double value = double(x[i]) + row[i % columns];
      total[i % columns] += x[i];
      added.push_back(value);
      cut.push_back(std::max(0.0f, x[i]));
      passed.push_back(x[i] > 0 ? dy[i] : 0);
      leaky.push_back(value < 0 ? value / 4 : value);
    }
    check_close(sums, total, rows);
    check_close(sum, added, 1);
    check_close(positive, cut, 1);
    check_close(dx, passed, 1);
    check_close(finished, leaky, 1);
  });
}

TEST("updates write what the formulas give, and nothing else") {
  each_set([](const KernelSet& set) {
    const size_t count = 53;
    const Floats value = some(count, 1), gradient = some(count, 2);
    Floats first = some(count, 3), second = some(count, 4);
    for (float& each : second) each = each * each;
    Floats out(count, 7), new_first(count, 7), new_second(count, 7);
    std::vector<double> sgd, momentum, adam, rms_prop, adagrad;
    for (size_t i = 0; i < count; i++) {
      const double v = value[i], g = gradient[i], m = first[i], s = second[i];
      sgd.push_back(v - 0.1 * g);
      momentum.push_back(v - 0.1 * (g + 0.9 * (0.9 * m + g)));
      adam.push_back(v - 0.1 * ((0.9 * m + 0.1 * g) / 0.5) / (std::sqrt((0.8 * s + 0.2 * g * g) / 0.25) + 0.01));
      rms_prop.push_back(v - (0.9 * m + 0.1 * g / std::sqrt(0.8 * s + 0.2 * g * g + 0.01)));
      adagrad.push_back(v - 0.1 * g / std::sqrt(s + g * g + 0.01));
    }
    const double n = count;
    run(set, "sgdUpdate", {at(out), at(value), at(gradient), n, -0.1});
    check_close(out, sgd, 4);
    run(set, "momentumUpdate", {at(out), at(new_first), at(value), at(first), at(gradient), n, -0.1, 0.9, 1});
    check_close(out, momentum, 4);
    run(set, "adamUpdate", {at(out), at(new_first), at(new_second), at(value), at(first), at(second), at(gradient), n, -0.1,
                            0.9, 0.8, 0.1, 0.2, 0.5, 0.25, 0.01});
    check_close(out, adam, 8);
    run(set, "rmsPropUpdate", {at(out), at(new_second), at(new_first), at(new_first), at(value), at(second), at(first),
                               at(first), at(gradient), n, 0.1, 0.8, 0.2, 0.9, 0.01, 0});
    check_close(out, rms_prop, 8);
    run(set, "adagradUpdate", {at(out), at(new_second), at(value), at(second), at(gradient), n, -0.1, 0.01});
    check_close(out, adagrad, 8);
  });
}

// NOTE [Equal updates].
TEST("updates have the same bits with every set") {
  const size_t count = 1003;
  const auto bits_of = [&](const KernelSet& set) {
    Floats value = some(count, 1), first = some(count, 2), second = some(count, 3), third = some(count, 4);
    Floats gradient = some(count, 5);
    for (float& square : second) square = std::fabs(square) + 1;
    std::vector<Floats> out(11, Floats(count));
    const double n = static_cast<double>(count), rate = -0.013, beta = 0.9f, rest = 0.1f;
    run(set, "sgdUpdate", {at(out[0]), at(value), at(gradient), n, rate});
    for (const double nesterov : {0, 1})
      run(set, "momentumUpdate",
          {at(out[nesterov == 0 ? 1 : 2]), at(out[3]), at(value), at(first), at(gradient), n, rate, beta, nesterov});
    run(set, "adamUpdate",
        {at(out[4]), at(out[5]), at(out[6]), at(value), at(first), at(second), at(gradient), n, rate, beta, 0.99f, rest, 0.01f,
         0.27f, 0.03f, 1e-7f});
    run(set, "rmsPropUpdate",
        {at(out[7]), at(out[8]), at(out[9]), at(third), at(value), at(second), at(first), at(third), at(gradient), n, rate,
         beta, rest, 0.5, 1e-7f, 0});
    run(set, "adagradUpdate", {at(out[10]), at(out[3]), at(value), at(second), at(gradient), n, rate, 1e-7f});
    return out;
  };
  const std::vector<Floats> expected = bits_of(*kernel_set("baseline"));
  each_set([&](const KernelSet& set) {
    const std::vector<Floats> found = bits_of(set);
    for (size_t i = 0; i < found.size(); i++)
      CHECK(std::memcmp(found[i].data(), expected[i].data(), 4 * count) == 0);
  });
}

TEST("arguments that lead out of the memory do not fit") {
  each_set([](const KernelSet& set) {
    const Kernel& product = kernel(set, "matMul");
    const double scratch = run(set, "scratchFloats", {});
    // c at 0, 2 × 3; a at 24, 2 × 4; b at 56, 4 × 3; scratch at 104.
    const std::vector<double> good = {0, 24, 56, 2, 3, 4, 4, 1, 3, 1, 104};
    const auto bytes = static_cast<size_t>(104 + 4 * scratch);
    CHECK(fits(set, product, good.data(), bytes));
    CHECK(!fits(set, product, good.data(), bytes - 4));
    for (const auto& [place, value] : std::vector<std::pair<size_t, double>>{
             {0, -4}, {0, 2}, {1, 1e18}, {3, 2.5}, {3, -1}, {4, 1e9}, {5, NAN}, {8, 4294967295.0}, {10, INFINITY}}) {
      std::vector<double> bad = good;
      bad[place] = value;
      CHECK(!fits(set, product, bad.data(), bytes));
    }
    // Every kernel has a check: far too large extents fit none that has a pointer.
    for (size_t i = 0; i < set.count; i++) {
      const std::vector<double> huge(set.kernels[i].arguments, 1 << 20);
      const bool is_size = std::string(set.kernels[i].name).find("ScratchFloats") != std::string::npos ||
                           set.kernels[i].arguments == 0;
      CHECK(fits(set, set.kernels[i], huge.data(), 1 << 20) == is_size);
    }
  });
}

TEST("the best set is one of those that can be chosen by name") {
  const KernelSet* best = kernel_set(nullptr);
  CHECK(best != nullptr);
  CHECK(kernel_set(best->name) == best);
  CHECK(kernel_set("abacus") == nullptr);
}
