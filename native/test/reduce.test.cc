// The kernels against a slow and obvious reference, for every dtype, operator, odd length and place in memory. (The
// TypeScript tests compare them with reduceInto() as well; here the sanitizers look on.)

#include "reduce/reduce.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "check.h"

using namespace hvd;

namespace {

constexpr Op ops[] = {Op::sum, Op::min, Op::max, Op::product};
constexpr size_t lengths[] = {0, 1, 2, 3, 7, 15, 17, 31, 33, 63, 65, 127, 129, 1023, 1025};

// A float of 16 bits by its definition: sign, exponent, mantissa.
struct SmallFloat {
  int mantissa_bits;
  int smallest_exponent;

  double value(uint16_t bits) const {
    int exponent = (bits & 0x7fff) >> mantissa_bits;
    int mantissa = bits & ((1 << mantissa_bits) - 1);
    double magnitude = exponent == 0 ? std::ldexp(mantissa, smallest_exponent - mantissa_bits)
                                     : std::ldexp(mantissa + (1 << mantissa_bits), exponent - 1 + smallest_exponent - mantissa_bits);
    if (exponent == (0x7fff >> mantissa_bits)) magnitude = mantissa == 0 ? INFINITY : NAN;
    return bits & 0x8000 ? -magnitude : magnitude;
  }
  uint16_t nearest(float number) const {
    uint16_t sign = std::signbit(number) ? 0x8000 : 0;
    const uint16_t infinity = static_cast<uint16_t>((0x7fff >> mantissa_bits) << mantissa_bits);
    double magnitude = std::fabs(static_cast<double>(number));
    if (std::isnan(magnitude)) return static_cast<uint16_t>(infinity | 1 << (mantissa_bits - 1));
    if (std::isinf(magnitude)) return sign | infinity;
    if (magnitude == 0) return sign;
    int exponent = std::max(std::ilogb(magnitude), smallest_exponent);
    // Exact divisions: only nearbyint() rounds, to even.
    double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
    auto bits = static_cast<uint32_t>(units);
    // A mantissa that rounds up to the next power carries into the exponent by itself.
    if (units >= (1 << mantissa_bits)) bits += static_cast<uint32_t>(exponent - smallest_exponent) << mantissa_bits;
    return static_cast<uint16_t>(sign | (bits > infinity ? infinity : bits));
  }
};
constexpr SmallFloat half{10, -14}, brain{7, -126};

template <class T>
T wrapped(double value) {
  if (!std::isfinite(value)) return 0;
  double rest = std::fmod(std::trunc(value), 0x1p64);
  auto bits = static_cast<uint64_t>(std::fabs(rest));
  return static_cast<T>(rest < 0 ? 0 - bits : bits);
}

template <class T>
T combine(T a, T b, Op op) {
  using Unsigned = uint64_t;
  if constexpr (std::is_integral_v<T>) {
    if (op == Op::sum) return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    if (op == Op::product) return static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  } else {
    if (op == Op::sum) return a + b;
    if (op == Op::product) return a * b;
    if (std::isnan(a)) return a;
  }
  if (op == Op::min) return a < b ? a : b;
  return a > b ? a : b;
}

template <class T>
T multiplied(T value, double factor) {
  if constexpr (std::is_same_v<T, float>)
    return value * static_cast<float>(factor);
  else if constexpr (std::is_same_v<T, double>)
    return value * factor;
  else
    return wrapped<T>(static_cast<double>(value) * factor);
}

// Random enough, the same every time.
struct Numbers {
  uint64_t state = 0x9e3779b97f4a7c15;
  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
};

template <class T>
T some(Numbers& numbers) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(numbers.next());
  return static_cast<T>(static_cast<int64_t>(numbers.next() % 2001) - 1000) / static_cast<T>(8);
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a) && std::isnan(b)) return true;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// Every length, number of sources, place relative to a vector register, in place or not, scaled or not.
template <class T, class Make, class Expect>
void check_reduce(DType dtype, const Make& make, const Expect& expect) {
  Numbers numbers;
  for (Op op : ops)
    for (size_t length : lengths)
      for (int count : {1, 2, 3, 4, 5, 8}) {
        const size_t offset = (length + static_cast<size_t>(count)) % 4;
        const bool in_place = length % 3 == 0;
        const double postscale = dtype != DType::boolean && count % 2 == 0 ? 0.375 : 1;
        std::vector<std::vector<T>> arrays(static_cast<size_t>(count), std::vector<T>(length + offset));
        for (auto& array : arrays)
          for (T& value : array) value = make(numbers);
        std::vector<T> expected(length), result(length + offset + 1);
        for (size_t i = 0; i < length; i++) {
          std::vector<T> values;
          for (auto& array : arrays) values.push_back(array[offset + i]);
          expected[i] = expect(values, op, postscale);
        }
        std::vector<const void*> sources;
        for (auto& array : arrays) sources.push_back(array.data() + offset);
        T* out = in_place ? arrays[0].data() + offset : result.data() + offset;
        const T guard = result.back();
        reduce(out, sources.data(), count, length, dtype, op, postscale);
        for (size_t i = 0; i < length; i++)
          if (!same(out[i], expected[i])) {
            CHECK_EQ(static_cast<int>(dtype), -1 - static_cast<int>(i));  // says which
          }
        CHECK(same(result.back(), guard));
      }
}

template <class T>
void check_numbers(DType dtype) {
  CHECK_EQ(element_bytes(dtype), sizeof(T));
  check_reduce<T>(dtype, some<T>, [](const std::vector<T>& values, Op op, double postscale) {
    T result = values[0];
    for (size_t i = 1; i < values.size(); i++) result = combine(result, values[i], op);
    return postscale == 1 ? result : multiplied(result, postscale);
  });
}

void check_small_floats(DType dtype, const SmallFloat& format) {
  CHECK_EQ(element_bytes(dtype), size_t{2});
  auto make = [&](Numbers& numbers) { return format.nearest(some<float>(numbers)); };
  check_reduce<uint16_t>(dtype, make, [&](const std::vector<uint16_t>& values, Op op, double postscale) {
    auto result = static_cast<float>(format.value(values[0]));
    for (size_t i = 1; i < values.size(); i++)
      result = combine(result, static_cast<float>(format.value(values[i])), op);
    return format.nearest(postscale == 1 ? result : result * static_cast<float>(postscale));
  });
}

}  // namespace

TEST("integers of every width are combined modulo their width") {
  check_numbers<uint8_t>(DType::uint8);
  check_numbers<int8_t>(DType::int8);
  check_numbers<uint16_t>(DType::uint16);
  check_numbers<int16_t>(DType::int16);
  check_numbers<int32_t>(DType::int32);
  check_numbers<int64_t>(DType::int64);
}

TEST("floats are combined in the order of the sources, each step rounded") {
  check_numbers<float>(DType::float32);
  check_numbers<double>(DType::float64);
}

TEST("floats of 16 bits are accumulated in 32 and rounded once") {
  check_small_floats(DType::float16, half);
  check_small_floats(DType::bfloat16, brain);
}

TEST("truth values: any nonzero is true, sum and max are or, min and product are and") {
  auto make = [](Numbers& numbers) { return static_cast<uint8_t>(numbers.next() % 3 * 100); };
  check_reduce<uint8_t>(DType::boolean, make, [](const std::vector<uint8_t>& values, Op op, double) {
    bool any = false, all = true;
    for (uint8_t value : values) {
      any = any || value != 0;
      all = all && value != 0;
    }
    return static_cast<uint8_t>(op == Op::sum || op == Op::max ? any : all);
  });
}

TEST("min and max pass a NaN on, from whichever source") {
  for (Op op : {Op::min, Op::max})
    for (size_t from = 0; from < 3; from++) {
      std::vector<float> values[3];
      for (size_t i = 0; i < 3; i++) values[i].assign(33, i == from ? NAN : 1.0f);
      const void* sources[] = {values[0].data(), values[1].data(), values[2].data()};
      std::vector<float> out(33);
      reduce(out.data(), sources, 3, 33, DType::float32, op, 1);
      for (float value : out) CHECK(std::isnan(value));
    }
}

TEST("every float16 survives a round trip through float32, and infinities and overflow do what they should") {
  std::vector<uint16_t> all, out(0x10000);
  for (uint32_t bits = 0; bits < 0x10000; bits++) all.push_back(static_cast<uint16_t>(bits));
  std::vector<uint16_t> zeros(0x10000, 0x8000);  // -0 changes nothing, not even the sign of zero
  const void* sources[] = {all.data(), zeros.data()};
  for (auto [dtype, format] : {std::pair{DType::float16, half}, std::pair{DType::bfloat16, brain}}) {
    reduce(out.data(), sources, 2, all.size(), dtype, Op::sum, 1);
    for (size_t i = 0; i < all.size(); i++) {
      double value = format.value(all[i]);
      if (std::isnan(value)) CHECK(std::isnan(format.value(out[i])));
      else CHECK_EQ(out[i], all[i]);
    }
  }
  uint16_t largest = 0x7bff, sum = 0;
  const void* two[] = {&largest, &largest};
  reduce(&sum, two, 2, 1, DType::float16, Op::sum, 1);
  CHECK_EQ(sum, 0x7c00);
}

TEST("scaling rounds floats, truncates and wraps integers, and makes 0 of what is no number") {
  float f[] = {1.5f, -2.0f, 3.0f}, g[3];
  scale(g, f, 3, DType::float32, 0.1);
  for (int i = 0; i < 3; i++) CHECK_EQ(g[i], f[i] * 0.1f);
  int8_t small[] = {100, -100, 7};
  scale(small, small, 3, DType::int8, 1.5);
  CHECK_EQ(small[0], static_cast<int8_t>(150));
  CHECK_EQ(small[1], static_cast<int8_t>(-150));
  CHECK_EQ(small[2], 10);
  int64_t large[] = {std::numeric_limits<int64_t>::max(), 3, -3};
  scale(large, large, 3, DType::int64, 4);
  CHECK_EQ(large[0], wrapped<int64_t>(static_cast<double>(std::numeric_limits<int64_t>::max()) * 4));
  CHECK_EQ(large[2], -12);
  int32_t some_number = 5;
  scale(&some_number, &some_number, 1, DType::int32, std::numeric_limits<double>::infinity());
  CHECK_EQ(some_number, 0);
}

TEST("the instruction set has a name") {
  std::string name = instruction_set();
  CHECK(name == "avx512" || name == "avx2" || name == "baseline");
}
