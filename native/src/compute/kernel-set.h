// The training kernels of native/wasm, compiled for the processor: the same C as in the WASM module, once for each instruction set, in a
// file of its own with its own compiler flags. They compute on the memory of the WASM backend, which the caller passes with each
// call, because it may have moved since the last one.
#pragma once

#include <cstddef>

namespace hvd::compute {

// Arguments that point to floats are offsets into the memory in bytes, as in the WASM module.
struct Kernel {
  const char* name;
  size_t arguments;
  double (*run)(char* memory, const double* values);
  // Whether each value is one that an argument of its type can have.
  bool (*has_types)(const double* values);
};

struct KernelSet {
  const char* name;
  const Kernel* kernels;
  size_t count;
};

// By name, or the best one if `name` is null. Null: this processor does not have it.
const KernelSet* kernel_set(const char* name);

// Whether `values` are arguments of the kernel, and all that it reads and writes lies in a memory of this size.
bool fits(const KernelSet& set, const Kernel& kernel, const double* values, size_t bytes);

}  // namespace hvd::compute
