// CRC-32C (Castagnoli, reflected), the checksum of TFRecord files: with the processor's own instruction where it has one
// (SSE4.2, ARMv8), with tables elsewhere. src/data/formats/tfrecord/crc32c.ts defines the results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

uint32_t crc32c(const uint8_t* bytes, size_t count);

// The tables, whatever the processor has; for tests.
uint32_t crc32c_by_tables(const uint8_t* bytes, size_t count);

// How crc32c() computes: "sse4.2", "armv8" or "tables".
const char* crc32c_method();

// As TFRecord stores it.
inline uint32_t mask_crc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace hvd
