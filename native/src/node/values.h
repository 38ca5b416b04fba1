// Converts between JavaScript values and C++ ones. Values of wrong types give zeros, not errors: the only caller is our
// TypeScript.
#pragma once

#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <system_error>
#include <vector>

namespace hvd::node {

struct Typed {
  char* data;
  size_t bytes;
};

inline Typed typed_array(napi_env env, napi_value value) {
  napi_typedarray_type type;
  size_t length;
  void* data;
  if (napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) != napi_ok) return {nullptr, 0};
  constexpr uint8_t bytes[] = {1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8};  // in the order of napi_typedarray_type
  return {static_cast<char*>(data), length * bytes[type]};
}

inline int32_t to_int(napi_env env, napi_value value) {
  int32_t number = 0;
  napi_get_value_int32(env, value, &number);
  return number;
}
inline int64_t to_int64(napi_env env, napi_value value) {
  int64_t number = 0;
  napi_get_value_int64(env, value, &number);
  return number;
}
inline double to_double(napi_env env, napi_value value) {
  double number = 0;
  napi_get_value_double(env, value, &number);
  return number;
}
inline napi_value from_int(napi_env env, int64_t number) {
  napi_value value;
  napi_create_int64(env, number, &value);
  return value;
}
inline napi_value undefined(napi_env env) {
  napi_value value;
  napi_get_undefined(env, &value);
  return value;
}

inline napi_value array_of(napi_env env, std::initializer_list<napi_value> values) {
  napi_value array;
  napi_create_array_with_length(env, values.size(), &array);
  uint32_t i = 0;
  for (napi_value value : values) napi_set_element(env, array, i++, value);
  return array;
}

template <class T>
T* external_in(napi_env env, napi_value value) {
  void* data = nullptr;
  napi_get_value_external(env, value, &data);
  return static_cast<T*>(data);
}

inline std::string to_text(napi_env env, napi_value value) {
  size_t bytes = 0;
  napi_get_value_string_utf8(env, value, nullptr, 0, &bytes);
  std::string text(bytes, '\0');
  napi_get_value_string_utf8(env, value, text.data(), bytes + 1, nullptr);
  return text;
}

// The arguments of a call, and the data of the called function.
template <size_t size>
struct Arguments {
  napi_value values[size > 0 ? size : 1];
  void* data;
  Arguments(napi_env env, napi_callback_info info) {
    size_t count = size;
    napi_get_cb_info(env, info, &count, values, nullptr, &data);
  }
  napi_value operator[](size_t i) const { return values[i]; }
  template <class T>
  T* data_as() const {
    return static_cast<T*>(data);
  }
};

// An object whose properties are the arguments of a function.
struct Options {
  napi_env env;
  napi_value object;
  napi_value get(const char* name) const {
    napi_value value = nullptr;
    napi_get_named_property(env, object, name, &value);
    return value;
  }
  int integer(const char* name) const { return to_int(env, get(name)); }
  double number(const char* name) const { return to_double(env, get(name)); }
  bool boolean(const char* name) const {
    bool value = false;
    napi_get_value_bool(env, get(name), &value);
    return value;
  }
  std::string text(const char* name) const { return to_text(env, get(name)); }
  std::vector<int> integers(const char* name) const {
    const Typed typed = typed_array(env, get(name));
    const auto* first = reinterpret_cast<const int32_t*>(typed.data);
    return {first, first + typed.bytes / sizeof(int32_t)};
  }
  template <class T>
  T* external(const char* name) const {
    return external_in<T>(env, get(name));
  }
};

inline napi_value throw_system(napi_env env, const std::system_error& error) {
  napi_throw_error(env, std::to_string(error.code().value()).c_str(), error.what());
  return nullptr;
}

inline void set_function(napi_env env, napi_value object, const char* name, napi_callback callback, void* data) {
  napi_value function;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, data, &function);
  napi_set_named_property(env, object, name, function);
}

}  // namespace hvd::node
