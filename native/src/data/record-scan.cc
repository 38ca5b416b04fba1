#include "record-scan.h"

#include <cstring>

#include "crc32c.h"

namespace hvd {
namespace {

template <class T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);  // every platform of the addon is little endian
  return value;
}

}  // namespace

ScanReport scan_records(const uint8_t* chunk, size_t bytes, size_t from, bool checks_data, uint32_t* starts, uint32_t* lengths,
                        size_t capacity) {
  ScanReport report;
  size_t at = from;
  while (report.count < capacity) {
    if (at > bytes || bytes - at < record_header_bytes) {
      report.needed = record_framing_bytes;
      break;
    }
    report.length = load<uint64_t>(chunk + at);
    if (load<uint32_t>(chunk + at + 8) != mask_crc(crc32c(chunk + at, 8))) {
      report.problem = ScanProblem::length_checksum;
      break;
    }
    if (report.length > max_record_bytes) {
      report.problem = ScanProblem::too_long;
      break;
    }
    const size_t length = report.length;
    if (bytes - at < length + record_framing_bytes) {
      report.needed = length + record_framing_bytes;
      break;
    }
    const size_t start = at + record_header_bytes;
    if (checks_data && load<uint32_t>(chunk + start + length) != mask_crc(crc32c(chunk + start, length))) {
      report.problem = ScanProblem::data_checksum;
      break;
    }
    starts[report.count] = static_cast<uint32_t>(start);
    lengths[report.count++] = static_cast<uint32_t>(length);
    at = start + length + 4;
  }
  report.consumed = at;
  return report;
}

}  // namespace hvd
