// Finds the records of a TFRecord file in a piece of memory and verifies their checksums, all in one call: a call per record
// would cost as much as the checksum. A record is: length (8 bytes), checksum of the length (4), data, checksum of the data
// (4), all little endian. src/data/formats/tfrecord/record-kernels.ts defines the results. Reads only inside the chunk,
// whatever it contains.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

enum class ScanProblem { none, length_checksum, data_checksum, too_long };

struct ScanReport {
  size_t count = 0;     // records found
  size_t consumed = 0;  // the first byte that belongs to none of them
  size_t needed = 0;    // bytes the record there needs; 0: not known, or the lists are full
  ScanProblem problem = ScanProblem::none;
  uint64_t length = 0;  // of the last record looked at
};

constexpr size_t record_header_bytes = 12;
constexpr size_t record_framing_bytes = 16;
constexpr uint64_t max_record_bytes = 0x7fffffff;

// Looks at chunk[from, bytes); `starts` and `lengths` have room for `capacity` records.
ScanReport scan_records(const uint8_t* chunk, size_t bytes, size_t from, bool checks_data, uint32_t* starts, uint32_t* lengths,
                        size_t capacity);

}  // namespace hvd
