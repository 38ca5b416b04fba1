#include "compute-functions.h"

#include "../compute/kernel-set.h"
#include "values.h"

namespace hvd::node {
namespace {

constexpr size_t most_arguments = 32;

struct Function {
  const compute::KernelSet& set;
  const compute::Kernel& kernel;
};

// name(memory: ArrayBuffer, …values) → number
napi_value run(napi_env env, napi_callback_info info) {
  napi_value arguments[1 + most_arguments];
  size_t count = 1 + most_arguments, bytes = 0;
  void* data = nullptr;
  void* memory = nullptr;
  napi_get_cb_info(env, info, &count, arguments, nullptr, &data);
  const auto& [set, kernel] = *static_cast<const Function*>(data);
  double values[most_arguments];
  bool is_good = count == 1 + kernel.arguments && napi_get_arraybuffer_info(env, arguments[0], &memory, &bytes) == napi_ok;
  for (size_t i = 0; is_good && i < kernel.arguments; i++)
    is_good = napi_get_value_double(env, arguments[1 + i], &values[i]) == napi_ok;
  if (!is_good || !compute::fits(set, kernel, values, bytes)) {
    const std::string text = std::string("horovod: arguments of the kernel ") + kernel.name + " do not fit together";
    napi_throw_range_error(env, nullptr, text.c_str());
    return nullptr;
  }
  napi_value result;
  napi_create_double(env, kernel.run(static_cast<char*>(memory), values), &result);
  return result;
}

// computeKernels(name?) → an object with a function for each kernel; undefined if this processor lacks the set of that name
napi_value compute_kernels(napi_env env, napi_callback_info info) {
  const Arguments<1> arguments(env, info);
  napi_valuetype type;
  napi_typeof(env, arguments[0], &type);
  const compute::KernelSet* set =
      compute::kernel_set(type == napi_string ? to_text(env, arguments[0]).c_str() : nullptr);
  if (set == nullptr) return undefined(env);
  napi_value object, name;
  napi_create_object(env, &object);
  napi_create_string_utf8(env, set->name, NAPI_AUTO_LENGTH, &name);
  napi_set_named_property(env, object, "set", name);
  for (size_t i = 0; i < set->count; i++) {
    const compute::Kernel& kernel = set->kernels[i];
    auto* function = new Function{*set, kernel};
    set_function(env, object, kernel.name, run, function);
    napi_add_env_cleanup_hook(env, [](void* hook) { delete static_cast<Function*>(hook); }, function);
  }
  return object;
}

}  // namespace

void add_compute_functions(napi_env env, napi_value exports) {
  set_function(env, exports, "computeKernels", compute_kernels, nullptr);
}

}  // namespace hvd::node
