// Checks the arguments of kernels: what the shapes say must lie in the memory. See kernel-set.h.
#include <cmath>
#include <cstring>

#include "kernel-set.h"

namespace hvd::compute {
namespace {

// The arguments of one call, by number, in the order of the C function.
struct Arguments {
  const KernelSet& set;
  const double* values;
  double bytes;

  double operator[](size_t i) const { return values[i]; }
  bool holds(size_t pointer, double floats) const {
    return floats >= 0 && (floats == 0 || values[pointer] + 4 * floats <= bytes);
  }
  bool all_hold(size_t pointers, double floats) const {
    for (size_t i = 0; i < pointers; i++)
      if (!holds(i, floats)) return false;
    return true;
  }
  // Floats of scratch that a kernel of this set asks for.
  double scratch(const char* name, double a = 0, double b = 0, double c = 0) const {
    const double numbers[] = {a, b, c};
    for (size_t i = 0; i < set.count; i++)
      if (std::strcmp(set.kernels[i].name, name) == 0) return set.kernels[i].run(nullptr, numbers);
    return INFINITY;
  }
};

// From 3 on: batch, height, width, channels, outHeight, outWidth, outChannels; then filterHeight and filterWidth
double image(const Arguments& a) { return a[3] * a[4] * a[5] * a[6]; }
double result(const Arguments& a) { return a[3] * a[7] * a[8] * a[9]; }
double window(const Arguments& a) { return a[10] * a[11] * a[6]; }

bool product(const Arguments& a) {  // c, a, b, rows, columns, depth, aRow, aDepth, bDepth, bColumn, scratch
  auto reach = [](double lines, double step, double depth, double depth_step) {
    return lines == 0 || depth == 0 ? 0 : (lines - 1) * step + (depth - 1) * depth_step + 1;
  };
  return a.holds(0, a[3] * a[4]) && a.holds(1, reach(a[3], a[6], a[5], a[7])) &&
         a.holds(2, reach(a[4], a[9], a[5], a[8])) && a.holds(10, a.scratch("scratchFloats"));
}

bool convolution(const Arguments& a) {
  return a.holds(0, result(a)) && a.holds(1, image(a)) && a.holds(2, window(a) * a[9]) &&
         a.holds(18, a.scratch("convScratchFloats", window(a), a[9]));
}
bool input_gradient(const Arguments& a) {
  return a.holds(0, image(a)) && a.holds(1, result(a)) && a.holds(2, window(a) * a[9]) && a[6] > 0 &&
         a.holds(16, a.scratch("convInputScratchFloats", window(a), a[9], a[6]));
}
bool filter_gradient(const Arguments& a) {
  return a.holds(0, window(a) * a[9]) && a.holds(1, image(a)) && a.holds(2, result(a)) &&
         a.holds(16, a.scratch("convFilterScratchFloats", window(a), a[9]));
}

// The vectors of these kernels are at most 16 floats long.
bool winograd(const Arguments& a, size_t scratch) {
  return a[6] >= 16 && a[9] >= 16 && a.holds(scratch, a.scratch("winogradScratchFloats", a[6], a[9]));
}
bool winograd_convolution(const Arguments& a) {
  return winograd(a, 13) && a.holds(0, result(a)) && a.holds(1, image(a)) && a.holds(2, 9 * a[6] * a[9]);
}
bool winograd_gradient(const Arguments& a) {
  return winograd(a, 12) && a.holds(0, 9 * a[6] * a[9]) && a.holds(1, image(a)) && a.holds(2, result(a));
}

// batch, height, width, channels, multiplier, outHeight, outWidth, filterHeight, filterWidth
bool depthwise(const Arguments& a, size_t of_image, size_t of_filter, size_t of_result) {
  return a.holds(of_image, image(a)) && a.holds(of_filter, a[10] * a[11] * a[6] * a[7]) &&
         a.holds(of_result, a[3] * a[8] * a[9] * a[6] * a[7]);
}

// After `pointers` pointers: batch, height, width, channels, outHeight, outWidth
template <size_t pointers>
bool pool(const Arguments& a, size_t of_image, size_t of_result) {
  const double* extents = a.values + pointers;
  const double planes = extents[0] * extents[3];
  return a.holds(of_image, planes * extents[1] * extents[2]) && a.holds(of_result, planes * extents[4] * extents[5]);
}

struct Check {
  const char* name;
  bool (*fits)(const Arguments&);
};

bool anything(const Arguments&) { return true; }

constexpr Check checks[] = {
    {"scratchFloats", anything},
    {"convScratchFloats", anything},
    {"convInputScratchFloats", [](const Arguments& a) { return a[2] > 0; }},
    {"convFilterScratchFloats", anything},
    {"winogradScratchFloats", anything},
    {"matMul", product},
    {"convolution", convolution},
    {"convInputGradient", input_gradient},
    {"convFilterGradient", filter_gradient},
    {"winogradConvolution", winograd_convolution},
    {"winogradFilterGradient", winograd_gradient},
    {"depthwiseConvolution", [](const Arguments& a) { return depthwise(a, 1, 2, 0); }},
    {"depthwiseFilterGradient", [](const Arguments& a) { return depthwise(a, 1, 0, 2); }},
    {"depthwiseInputGradient", [](const Arguments& a) { return depthwise(a, 0, 1, 2); }},
    {"maxPool", [](const Arguments& a) { return pool<2>(a, 1, 0); }},
    {"maxPoolGradient", [](const Arguments& a) { return a.holds(1, image(a)) && pool<3>(a, 0, 2); }},
    {"averagePool", [](const Arguments& a) { return pool<2>(a, 1, 0); }},
    {"averagePoolGradient", [](const Arguments& a) { return pool<2>(a, 0, 1); }},
    {"finishRows", [](const Arguments& a) { return a.holds(0, a[2] * a[3]) && (a[4] == 0 || a.holds(1, a[3])); }},
    {"addRow", [](const Arguments& a) { return a.holds(0, a[3] * a[4]) && a.holds(1, a[3] * a[4]) && a.holds(2, a[4]); }},
    {"reluOf", [](const Arguments& a) { return a.all_hold(2, a[2]); }},
    {"reluGradient", [](const Arguments& a) { return a.all_hold(3, a[3]); }},
    {"sumRows", [](const Arguments& a) { return a.holds(0, a[3]) && a.holds(1, a[2] * a[3]); }},
    {"sgdUpdate", [](const Arguments& a) { return a.all_hold(3, a[3]); }},
    {"momentumUpdate", [](const Arguments& a) { return a.all_hold(5, a[5]); }},
    {"adamUpdate", [](const Arguments& a) { return a.all_hold(7, a[7]); }},
    {"rmsPropUpdate", [](const Arguments& a) { return a.all_hold(9, a[9]); }},
    {"adagradUpdate", [](const Arguments& a) { return a.all_hold(5, a[5]); }},
};

}  // namespace

bool fits(const KernelSet& set, const Kernel& kernel, const double* values, size_t bytes) {
  if (!kernel.has_types(values)) return false;
  for (const Check& check : checks)
    if (std::strcmp(check.name, kernel.name) == 0)
      return check.fits({set, values, static_cast<double>(bytes)});
  return false;
}

}  // namespace hvd::compute
