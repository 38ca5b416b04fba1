#include "tensor-exchange.h"

#include <cstring>

#include "../tensorflow/tensor-exchange.h"
#include "values.h"

namespace hvd::node {
namespace {

using tensorflow::TensorList;

// What JavaScript holds: empty once the list has been offered or released.
struct ListHandle {
  std::unique_ptr<TensorList> list;
};

napi_value wrap(napi_env env, std::unique_ptr<TensorList> list) {
  napi_value external;
  napi_create_external(
      env, new ListHandle{std::move(list)},
      [](napi_env, void* data, void*) { delete static_cast<ListHandle*>(data); }, nullptr, &external);
  return external;
}

napi_value throw_plain(napi_env env, const char* text) {
  napi_throw_error(env, nullptr, text);
  return nullptr;
}

napi_value text(napi_env env, const std::string& value) {
  napi_value result;
  napi_create_string_utf8(env, value.c_str(), value.size(), &result);
  return result;
}

// connectTensorflow() → [name of take, name of give], or a string: the reason of the failure
napi_value connect(napi_env env, napi_callback_info) {
  const tensorflow::Connection& connection = tensorflow::connect();
  if (!connection.problem.empty()) return text(env, connection.problem);
  napi_value names;
  napi_create_array_with_length(env, 2, &names);
  napi_set_element(env, names, 0, text(env, connection.take));
  napi_set_element(env, names, 1, text(env, connection.give));
  return names;
}

// collectTensors() → list, undefined if the take operation has not run
napi_value collect(napi_env env, napi_callback_info) {
  std::unique_ptr<TensorList> list = tensorflow::collect();
  return list ? wrap(env, std::move(list)) : undefined(env);
}

// ownTensors(list, addresses): makes the tensors' memory writable for us and fills in its addresses
napi_value own(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  TensorList& list = *external_in<ListHandle>(env, arguments[0])->list;
  Typed addresses = typed_array(env, arguments[1]);
  if (!list.own()) return throw_plain(env, "TensorFlow has no memory for copies of tensors");
  for (size_t i = 0; i < list.size() && i < addresses.bytes / sizeof(double); i++)
    reinterpret_cast<double*>(addresses.data)[i] = static_cast<double>(reinterpret_cast<uintptr_t>(list.data(i)));
  return undefined(env);
}

// tensorMemory(list, i) → ArrayBuffer over the tensor's memory, or null if this build of V8 does not accept external
// memory. The caller does not use it after the list is gone.
napi_value memory(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  napi_value buffer;
  TensorList& list = *external_in<ListHandle>(env, arguments[0])->list;
  auto i = static_cast<size_t>(to_int64(env, arguments[1]));
  if (napi_create_external_arraybuffer(env, list.data(i), list.bytes(i), nullptr, nullptr, &buffer) != napi_ok)
    napi_get_null(env, &buffer);
  return buffer;
}

// copyTensors(list, arrays): copies each tensor's values into its array
napi_value copy(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  TensorList& list = *external_in<ListHandle>(env, arguments[0])->list;
  for (size_t i = 0; i < list.size(); i++) {
    napi_value element;
    napi_get_element(env, arguments[1], static_cast<uint32_t>(i), &element);
    Typed to = typed_array(env, element);
    if (to.bytes != list.bytes(i)) return throw_plain(env, "a tensor and its array differ in size");
    if (to.bytes > 0) std::memcpy(to.data, list.data(i), to.bytes);
  }
  return undefined(env);
}

// makeTensors(dtype, shapes, arrays) → list of new tensors with the arrays' values
napi_value make(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  napi_value element, size;
  uint32_t tensors = 0;
  napi_get_array_length(env, arguments[2], &tensors);
  auto list = std::make_unique<TensorList>();
  for (uint32_t i = 0; i < tensors; i++) {
    uint32_t dimensions = 0;
    napi_get_element(env, arguments[1], i, &element);
    napi_get_array_length(env, element, &dimensions);
    std::vector<int64_t> shape(dimensions);
    for (uint32_t j = 0; j < dimensions; j++) {
      napi_get_element(env, element, j, &size);
      shape[j] = static_cast<int64_t>(to_double(env, size));
    }
    napi_get_element(env, arguments[2], i, &element);
    Typed from = typed_array(env, element);
    if (!list->add_copy(to_int(env, arguments[0]), shape, from.data, from.bytes))
      return throw_plain(env, "TensorFlow has no memory for a tensor");
  }
  return wrap(env, std::move(list));
}

// offerTensors(list): the give operation will hand them out
napi_value offer(napi_env env, napi_callback_info info) {
  const Arguments<1> arguments(env, info);
  tensorflow::offer(std::move(external_in<ListHandle>(env, arguments[0])->list));
  return undefined(env);
}

// releaseTensors(list): at once; the garbage collector would be too late
napi_value release(napi_env env, napi_callback_info info) {
  const Arguments<1> arguments(env, info);
  external_in<ListHandle>(env, arguments[0])->list.reset();
  return undefined(env);
}

}  // namespace

void add_tensor_exchange(napi_env env, napi_value exports) {
  set_function(env, exports, "connectTensorflow", connect, nullptr);
  set_function(env, exports, "collectTensors", collect, nullptr);
  set_function(env, exports, "ownTensors", own, nullptr);
  set_function(env, exports, "tensorMemory", memory, nullptr);
  set_function(env, exports, "copyTensors", copy, nullptr);
  set_function(env, exports, "makeTensors", make, nullptr);
  set_function(env, exports, "offerTensors", offer, nullptr);
  set_function(env, exports, "releaseTensors", release, nullptr);
}

}  // namespace hvd::node
