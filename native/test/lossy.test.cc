// The loops of lossy compression against slow and obvious ones, in arrays of exactly their size. (The TypeScript tests
// compare them with their definition to the bit; here the sanitizers look on.)

#include "reduce/lossy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "check.h"
#include "reduce/reduce.h"

using namespace hvd;

namespace {

constexpr size_t lengths[] = {0, 1, 3, 7, 8, 15, 17, 33, 63, 64, 65, 255, 256, 257, 1027};

// Ordinary values, equal ones, and now and then one that is not finite, subnormal or the largest there is.
std::vector<float> values(size_t length, uint32_t seed) {
  constexpr float largest = std::numeric_limits<float>::max();
  const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-44f, largest, -largest};
  std::vector<float> list(length);
  for (float& value : list) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(static_cast<int32_t>(seed) >> 20) / 64;
    if (seed % 31 == 0) value = special[(seed >> 8) % 7];
  }
  return list;
}

template <class Body>
void with_all_instruction_sets(Body body) {
  const std::string before = instruction_set();
  for (const char* name : {"baseline", "avx2", "avx512"})
    if (use_instruction_set(name)) body();
  use_instruction_set(before.c_str());
}

bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, 4) == 0; }

}  // namespace

TEST("codes mean the values to within half a step, what is not finite means NaN, and the rest is what is missing") {
  with_all_instruction_sets([] {
    for (size_t n : lengths)
      for (size_t block : {4u, 64u, 256u}) {
        auto given = values(n, static_cast<uint32_t>(n + block));
        std::vector<char> scales(4 * ((n + block - 1) / block));
        std::vector<int8_t> codes(n);
        lossy::quantize(given.data(), n, block, scales.data(), codes.data());
        std::vector<float> back(n), rest(n), sum(n, 1.0f);
        lossy::dequantize(back.data(), n, block, scales.data(), codes.data(), false);
        lossy::dequantize(sum.data(), n, block, scales.data(), codes.data(), true);
        lossy::keep_rest(rest.data(), given.data(), n, block, scales.data(), codes.data(), false);
        for (size_t i = 0; i < n; i++) {
          float scale;
          std::memcpy(&scale, scales.data() + 4 * (i / block), 4);
          CHECK(same(sum[i], 1.0f + back[i]));
          CHECK_EQ(std::isfinite(given[i]), std::isfinite(back[i]));
          if (!std::isfinite(given[i])) {
            CHECK_EQ(rest[i], 0.0f);
            continue;
          }
          double off = static_cast<double>(given[i]) - back[i];
          CHECK(std::fabs(off) <= 0.5001 * scale + 1e-42);
          CHECK_EQ(rest[i], static_cast<float>(off));
        }
        auto twice = rest;
        lossy::keep_rest(twice.data(), given.data(), n, block, scales.data(), codes.data(), true);
        for (size_t i = 0; i < n; i++) CHECK(same(twice[i], rest[i] + rest[i]) || std::isinf(rest[i] + rest[i]));
      }
  });
}

TEST("the largest values are those that sorting finds, the first of equal ones") {
  with_all_instruction_sets([] {
    for (size_t n : lengths)
      for (size_t count : {size_t{0}, size_t{1}, n / 7, n / 2, n}) {
        if (count > n) continue;
        auto given = values(n, static_cast<uint32_t>(n + count));
        auto magnitude = [&](uint32_t place) {
          uint32_t bits;
          std::memcpy(&bits, &given[place], 4);
          return bits & 0x7fffffffu;
        };
        std::vector<uint32_t> expected(n);
        for (size_t i = 0; i < n; i++) expected[i] = static_cast<uint32_t>(i);
        std::stable_sort(expected.begin(), expected.end(), [&](auto a, auto b) { return magnitude(a) > magnitude(b); });
        expected.resize(count);
        std::sort(expected.begin(), expected.end());
        std::vector<uint32_t> places(count);
        std::vector<float> chosen(count);
        lossy::choose_largest(given.data(), n, places.data(), chosen.data(), count);
        CHECK(places == expected);
        for (size_t k = 0; k < count; k++) CHECK(same(chosen[k], given[places[k]]));
      }
  });
}

TEST("products of matrices are sums in float64, in order") {
  with_all_instruction_sets([] {
    const size_t shapes[][2] = {{1, 1}, {3, 7}, {8, 8}, {17, 5}, {9, 255}, {16, 256}, {5, 530}};
    for (auto [rows, columns] : shapes)
      for (size_t rank : {1u, 3u, 4u, 6u}) {
        std::vector<float> m(rows * columns), p(rows * rank), q(columns * rank);
        for (size_t i = 0; i < m.size(); i++) m[i] = std::sin(static_cast<float>(i * i));
        for (size_t i = 0; i < q.size(); i++) q[i] = std::cos(static_cast<float>(i * i));
        lossy::multiply(m.data(), rows, columns, q.data(), p.data(), rank);
        for (size_t k = 0; k < rank; k++)
          for (size_t i = 0; i < rows; i++) {
            double sum = 0;
            for (size_t j = 0; j < columns; j++) sum += static_cast<double>(m[i * columns + j]) * q[k * columns + j];
            CHECK_EQ(p[k * rows + i], static_cast<float>(sum));
          }
        lossy::multiply_transposed(m.data(), rows, columns, p.data(), q.data(), rank);
        for (size_t k = 0; k < rank; k++)
          for (size_t j = 0; j < columns; j++) {
            double sum = 0;
            for (size_t i = 0; i < rows; i++) sum += static_cast<double>(m[i * columns + j]) * p[k * rows + i];
            CHECK_EQ(q[k * columns + j], static_cast<float>(sum));
          }
        lossy::expand(p.data(), q.data(), rows, columns, rank, m.data());
        for (size_t i = 0; i < rows; i++)
          for (size_t j = 0; j < columns; j++) {
            double sum = 0;
            for (size_t k = 0; k < rank; k++) sum += static_cast<double>(p[k * rows + i]) * q[k * columns + j];
            CHECK_EQ(m[i * columns + j], static_cast<float>(sum));
          }
      }
  });
}
