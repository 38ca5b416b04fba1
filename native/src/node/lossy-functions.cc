#include "lossy-functions.h"

#include "../reduce/lossy.h"
#include "../reduce/reduce.h"
#include "values.h"

namespace hvd::node {
namespace {

// The arguments of a call, each read as the type it must have. If one has another type or is too short, nothing is
// computed, and JavaScript gets a RangeError.
class CheckedArguments {
 public:
  CheckedArguments(napi_env env, napi_callback_info info) : env_(env) {
    napi_get_cb_info(env, info, &count_, values_, nullptr, nullptr);
  }

  template <class T>
  struct Array {
    T* data;
    size_t length;
  };

  Array<float> floats(size_t i) { return array<float>(i, napi_float32_array); }
  Array<uint32_t> places(size_t i) { return array<uint32_t>(i, napi_uint32_array); }
  Array<char> bytes(size_t i) { return array<char>(i, napi_uint8_array); }

  // A whole number from 0, no larger than any array can be.
  size_t number(size_t i) {
    double value = -1;
    check(i < count_ && napi_get_value_double(env_, values_[i], &value) == napi_ok);
    check(value >= 0 && value <= 0x1p48 && value == static_cast<double>(static_cast<uint64_t>(value >= 0 ? value : 0)));
    return good_ ? static_cast<size_t>(value) : 0;
  }

  double factor(size_t i) {
    double value = 0;
    check(i < count_ && napi_get_value_double(env_, values_[i], &value) == napi_ok);
    return value;
  }

  bool flag(size_t i) {
    bool value = false;
    check(i < count_ && napi_get_value_bool(env_, values_[i], &value) == napi_ok);
    return value;
  }

  void check(bool condition) { good_ = good_ && condition; }

  bool are_good_so_far() const { return good_; }

  // Throws if something was wrong.
  bool are_good() const {
    if (!good_) napi_throw_range_error(env_, nullptr, "horovod: arrays of a compression kernel do not fit together");
    return good_;
  }

 private:
  template <class T>
  Array<T> array(size_t i, napi_typedarray_type wanted) {
    napi_typedarray_type type;
    size_t length = 0;
    void* data = nullptr;
    bool is_one = i < count_ && napi_get_typedarray_info(env_, values_[i], &type, &length, &data, nullptr, nullptr) == napi_ok;
    check(is_one && type == wanted);
    return good_ ? Array<T>{static_cast<T*>(data), length} : Array<T>{nullptr, 0};
  }

  napi_env env_;
  size_t count_ = 7;
  napi_value values_[7];
  bool good_ = true;
};

// add(target, values)
napi_value add(napi_env env, napi_callback_info info) {
  CheckedArguments arguments(env, info);
  auto target = arguments.floats(0), values = arguments.floats(1);
  arguments.check(target.length == values.length);
  if (!arguments.are_good()) return nullptr;
  const void* sources[] = {target.data, values.data};
  reduce(target.data, sources, 2, target.length, DType::float32, Op::sum, 1.0);
  return nullptr;
}

// scale(target, source, factor)
napi_value scale_into(napi_env env, napi_callback_info info) {
  CheckedArguments arguments(env, info);
  auto target = arguments.floats(0), source = arguments.floats(1);
  double factor = arguments.factor(2);
  arguments.check(target.length == source.length);
  if (!arguments.are_good()) return nullptr;
  const void* sources[] = {source.data};
  reduce(target.data, sources, 1, target.length, DType::float32, Op::sum, factor);
  return nullptr;
}

// Where scales and codes of values lie in a packet.
struct Coded {
  size_t block;
  char* scales;
  int8_t* codes;
};

// The arguments from `i` on: blockSize, packet, scalesAt, codesAt.
Coded coded(CheckedArguments& arguments, size_t i, size_t elements) {
  size_t block = arguments.number(i);
  auto packet = arguments.bytes(i + 1);
  size_t scales_at = arguments.number(i + 2), codes_at = arguments.number(i + 3);
  arguments.check(block > 0);
  size_t blocks = block > 0 ? elements / block + (elements % block > 0 ? 1 : 0) : 0;
  arguments.check(scales_at <= packet.length && 4 * blocks <= packet.length - scales_at);
  arguments.check(codes_at <= packet.length && elements <= packet.length - codes_at);
  if (!arguments.are_good_so_far()) return {1, nullptr, nullptr};
  return {block, packet.data + scales_at, reinterpret_cast<int8_t*>(packet.data) + codes_at};
}

// quantize(values, blockSize, packet, scalesAt, codesAt)
napi_value quantize(napi_env env, napi_callback_info info) {
  CheckedArguments arguments(env, info);
  auto values = arguments.floats(0);
  Coded to = coded(arguments, 1, values.length);
  if (!arguments.are_good()) return nullptr;
  lossy::quantize(values.data, values.length, to.block, to.scales, to.codes);
  return nullptr;
}

// dequantize(target, blockSize, packet, scalesAt, codesAt, isAdded)
napi_value dequantize(napi_env env, napi_callback_info info) {
  CheckedArguments arguments(env, info);
  auto target = arguments.floats(0);
  Coded from = coded(arguments, 1, target.length);
  bool is_added = arguments.flag(5);
  if (!arguments.are_good()) return nullptr;
  lossy::dequantize(target.data, target.length, from.block, from.scales, from.codes, is_added);
  return nullptr;
}

// keepRest(residual, values, blockSize, packet, scalesAt, codesAt, isAdded)
napi_value keep_rest(napi_env env, napi_callback_info info) {
  CheckedArguments arguments(env, info);
  auto residual = arguments.floats(0), values = arguments.floats(1);
  Coded from = coded(arguments, 2, values.length);
  bool is_added = arguments.flag(6);
  arguments.check(residual.length == values.length);
  if (!arguments.are_good()) return nullptr;
  lossy::keep_rest(residual.data, values.data, values.length, from.block, from.scales, from.codes, is_added);
  return nullptr;
}

// chooseLargest(data, places, values)
napi_value choose_largest(napi_env env, napi_callback_info info) {
  CheckedArguments arguments(env, info);
  auto data = arguments.floats(0), values = arguments.floats(2);
  auto places = arguments.places(1);
  arguments.check(places.length == values.length && places.length <= data.length && data.length <= 0xffffffffu);
  if (!arguments.are_good()) return nullptr;
  lossy::choose_largest(data.data, data.length, places.data, values.data, places.length);
  return nullptr;
}

// A matrix and its thin ones; the numbers are far too small for their products to overflow.
bool fit(size_t m, size_t rows, size_t columns, size_t p, size_t q, size_t rank) {
  auto is_product = [](size_t whole, size_t a, size_t b) { return a == 0 || b == 0 ? whole == 0 : whole % a == 0 && whole / a == b; };
  return is_product(m, rows, columns) && is_product(p, rows, rank) && is_product(q, columns, rank);
}

// multiply(m, rows, columns, q, p, rank)
napi_value multiply(napi_env env, napi_callback_info info) {
  CheckedArguments arguments(env, info);
  auto m = arguments.floats(0), q = arguments.floats(3), p = arguments.floats(4);
  size_t rows = arguments.number(1), columns = arguments.number(2), rank = arguments.number(5);
  arguments.check(fit(m.length, rows, columns, p.length, q.length, rank));
  if (!arguments.are_good()) return nullptr;
  lossy::multiply(m.data, rows, columns, q.data, p.data, rank);
  return nullptr;
}

// multiplyTransposed(m, rows, columns, p, q, rank)
napi_value multiply_transposed(napi_env env, napi_callback_info info) {
  CheckedArguments arguments(env, info);
  auto m = arguments.floats(0), p = arguments.floats(3), q = arguments.floats(4);
  size_t rows = arguments.number(1), columns = arguments.number(2), rank = arguments.number(5);
  arguments.check(fit(m.length, rows, columns, p.length, q.length, rank));
  if (!arguments.are_good()) return nullptr;
  lossy::multiply_transposed(m.data, rows, columns, p.data, q.data, rank);
  return nullptr;
}

// expand(p, q, rows, columns, rank, target)
napi_value expand(napi_env env, napi_callback_info info) {
  CheckedArguments arguments(env, info);
  auto p = arguments.floats(0), q = arguments.floats(1), target = arguments.floats(5);
  size_t rows = arguments.number(2), columns = arguments.number(3), rank = arguments.number(4);
  arguments.check(fit(target.length, rows, columns, p.length, q.length, rank));
  if (!arguments.are_good()) return nullptr;
  lossy::expand(p.data, q.data, rows, columns, rank, target.data);
  return nullptr;
}

}  // namespace

void add_lossy_functions(napi_env env, napi_value exports) {
  napi_value kernels;
  napi_create_object(env, &kernels);
  set_function(env, kernels, "add", add, nullptr);
  set_function(env, kernels, "scale", scale_into, nullptr);
  set_function(env, kernels, "quantize", quantize, nullptr);
  set_function(env, kernels, "dequantize", dequantize, nullptr);
  set_function(env, kernels, "keepRest", keep_rest, nullptr);
  set_function(env, kernels, "chooseLargest", choose_largest, nullptr);
  set_function(env, kernels, "multiply", multiply, nullptr);
  set_function(env, kernels, "multiplyTransposed", multiply_transposed, nullptr);
  set_function(env, kernels, "expand", expand, nullptr);
  napi_set_named_property(env, exports, "compressionKernels", kernels);
}

}  // namespace hvd::node
