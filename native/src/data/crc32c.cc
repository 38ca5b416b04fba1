#include "crc32c.h"

#include <array>
#include <cstring>

#include "../processor/instructions.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#endif

namespace hvd {
namespace {

constexpr uint32_t polynomial = 0x82f63b78;

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Table t: the effect of a byte that t more bytes follow.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t value = 0; value < 256; value++) {
    uint32_t crc = value;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >> 1) ^ polynomial : crc >> 1;
    tables[0][value] = crc;
  }
  for (size_t t = 1; t < tables.size(); t++)
    for (size_t value = 0; value < 256; value++) {
      const uint32_t before = tables[t - 1][value];
      tables[t][value] = tables[0][before & 255] ^ (before >> 8);
    }
  return tables;
}

constexpr Tables tables = make_tables();

uint64_t load(const uint8_t* from) {
  uint64_t word;
  std::memcpy(&word, from, 8);
  return word;
}

uint32_t with_tables(uint32_t crc, const uint8_t* at, size_t count) {
  for (; count >= 8; count -= 8, at += 8) {
    const uint64_t word = load(at) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; i++) crc ^= tables[7 - i][(word >> (8 * i)) & 255];
  }
  for (; count > 0; count--, at++) crc = tables[0][(crc ^ *at) & 255] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__) || (defined(__aarch64__) && defined(__linux__))

// The instruction has a latency of three cycles and can start in each of them, so long input is taken as three stripes at a
// time. Afterwards the checksum of a stripe is moved over the bytes that follow it: that is a linear map of its 32 bits,
// kept as four tables by byte.
constexpr size_t stripe_bytes = 1024;
using Shift = std::array<std::array<uint32_t, 256>, 4>;

constexpr Shift make_shift(size_t zero_bytes) {
  std::array<uint32_t, 32> effect{};  // of each bit
  for (uint32_t bit = 0; bit < 32; bit++) {
    uint32_t crc = 1u << bit;
    for (size_t i = 0; i < zero_bytes; i++) crc = tables[0][crc & 255] ^ (crc >> 8);
    effect[bit] = crc;
  }
  Shift shift{};
  for (uint32_t part = 0; part < 4; part++)
    for (uint32_t value = 0; value < 256; value++) {
      uint32_t sum = 0;
      for (uint32_t bit = 0; bit < 8; bit++)
        if (value >> bit & 1) sum ^= effect[8 * part + bit];
      shift[part][value] = sum;
    }
  return shift;
}

const Shift shift_by_stripe = make_shift(stripe_bytes);

uint32_t shifted(uint32_t crc) {
  const Shift& shift = shift_by_stripe;
  return shift[0][crc & 255] ^ shift[1][crc >> 8 & 255] ^ shift[2][crc >> 16 & 255] ^ shift[3][crc >> 24];
}

#if defined(__x86_64__)
#if defined(__clang__)
#define HVD_CRC_TARGET __attribute__((target("sse4.2,crc32")))
#else
#define HVD_CRC_TARGET __attribute__((target("sse4.2")))
#endif
HVD_CRC_TARGET inline uint64_t step(uint64_t crc, uint64_t word) { return _mm_crc32_u64(crc, word); }
HVD_CRC_TARGET inline uint32_t step_byte(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
bool has_instruction() { return instructions().sse42; }
constexpr const char* instruction_name = "sse4.2";
#else
#define HVD_CRC_TARGET __attribute__((target("+crc")))
HVD_CRC_TARGET inline uint64_t step(uint64_t crc, uint64_t word) { return __crc32cd(static_cast<uint32_t>(crc), word); }
HVD_CRC_TARGET inline uint32_t step_byte(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
bool has_instruction() { return instructions().crc32; }
constexpr const char* instruction_name = "armv8";
#endif

HVD_CRC_TARGET uint32_t with_instruction(uint32_t crc, const uint8_t* at, size_t count) {
  while (count >= 3 * stripe_bytes) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < stripe_bytes; i += 8) {
      a = step(a, load(at + i));
      b = step(b, load(at + stripe_bytes + i));
      c = step(c, load(at + 2 * stripe_bytes + i));
    }
    const uint32_t first_two = shifted(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    crc = shifted(first_two) ^ static_cast<uint32_t>(c);
    at += 3 * stripe_bytes;
    count -= 3 * stripe_bytes;
  }
  uint64_t wide = crc;
  for (; count >= 8; count -= 8, at += 8) wide = step(wide, load(at));
  crc = static_cast<uint32_t>(wide);
  for (; count > 0; count--, at++) crc = step_byte(crc, *at);
  return crc;
}

#else
bool has_instruction() { return false; }
constexpr const char* instruction_name = "";
uint32_t with_instruction(uint32_t crc, const uint8_t* at, size_t count) { return with_tables(crc, at, count); }
#endif

const bool uses_instruction = has_instruction();

}  // namespace

uint32_t crc32c(const uint8_t* bytes, size_t count) {
  return ~(uses_instruction ? with_instruction(~0u, bytes, count) : with_tables(~0u, bytes, count));
}

uint32_t crc32c_by_tables(const uint8_t* bytes, size_t count) { return ~with_tables(~0u, bytes, count); }

const char* crc32c_method() { return uses_instruction ? instruction_name : "tables"; }

}  // namespace hvd
