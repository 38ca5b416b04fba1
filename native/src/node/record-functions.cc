#include "record-functions.h"

#include <algorithm>

#include "../data/crc32c.h"
#include "../data/record-scan.h"
#include "values.h"

namespace hvd::node {
namespace {

struct View {
  void* data = nullptr;
  size_t length = 0;
  bool is_good = false;
};

View array_of_type(napi_env env, napi_value value, napi_typedarray_type wanted) {
  napi_typedarray_type type;
  View view;
  if (napi_get_typedarray_info(env, value, &type, &view.length, &view.data, nullptr, nullptr) != napi_ok) return view;
  view.is_good = type == wanted;
  return view;
}

napi_value reject(napi_env env) {
  napi_throw_range_error(env, nullptr, "horovod: arguments of a record kernel do not fit together");
  return nullptr;
}

// crc32c(bytes: Uint8Array, start, end) → number
napi_value crc32c_of(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  const View bytes = array_of_type(env, arguments[0], napi_uint8_array);
  const double start = to_double(env, arguments[1]), end = to_double(env, arguments[2]);
  if (!bytes.is_good || !(start >= 0 && start <= end && end <= static_cast<double>(bytes.length))) return reject(env);
  const auto first = static_cast<size_t>(start);
  return from_int(env, crc32c(static_cast<const uint8_t*>(bytes.data) + first, static_cast<size_t>(end) - first));
}

// scanRecords(chunk: Uint8Array, from, checksData, starts: Uint32Array, lengths: Uint32Array, report: Float64Array) → count
napi_value scan_records_in(napi_env env, napi_callback_info info) {
  const Arguments<6> arguments(env, info);
  const View chunk = array_of_type(env, arguments[0], napi_uint8_array);
  const double from = to_double(env, arguments[1]);
  bool checks_data = true;
  napi_get_value_bool(env, arguments[2], &checks_data);
  const View starts = array_of_type(env, arguments[3], napi_uint32_array);
  const View lengths = array_of_type(env, arguments[4], napi_uint32_array);
  const View report = array_of_type(env, arguments[5], napi_float64_array);
  if (!chunk.is_good || !starts.is_good || !lengths.is_good || !report.is_good || report.length < 4 ||
      !(from >= 0 && from <= static_cast<double>(chunk.length)) || chunk.length > 0xffffffffu)
    return reject(env);
  const ScanReport found = scan_records(static_cast<const uint8_t*>(chunk.data), chunk.length, static_cast<size_t>(from),
                                        checks_data, static_cast<uint32_t*>(starts.data), static_cast<uint32_t*>(lengths.data),
                                        std::min(starts.length, lengths.length));
  auto* numbers = static_cast<double*>(report.data);
  numbers[0] = static_cast<double>(found.consumed);
  numbers[1] = static_cast<double>(found.needed);
  numbers[2] = static_cast<double>(found.problem);
  numbers[3] = static_cast<double>(found.length);
  return from_int(env, static_cast<int64_t>(found.count));
}

}  // namespace

void add_record_functions(napi_env env, napi_value exports) {
  napi_value kernels, method;
  napi_create_object(env, &kernels);
  set_function(env, kernels, "crc32c", crc32c_of, nullptr);
  set_function(env, kernels, "scanRecords", scan_records_in, nullptr);
  napi_set_named_property(env, exports, "recordKernels", kernels);
  napi_create_string_utf8(env, crc32c_method(), NAPI_AUTO_LENGTH, &method);
  napi_set_named_property(env, exports, "crc32cMethod", method);
}

}  // namespace hvd::node
