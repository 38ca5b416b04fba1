// Checksums and the scan of TFRecord data, in memory of exactly its size, so that the sanitizers notice a byte read outside.

#include "data/record-scan.h"

#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "data/crc32c.h"

using namespace hvd;

namespace {

std::vector<uint8_t> bytes_of(size_t count, uint32_t seed) {
  std::vector<uint8_t> list(count);
  for (uint8_t& value : list) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<uint8_t>(seed >> 24);
  }
  return list;
}

uint32_t bit_by_bit(const std::vector<uint8_t>& bytes) {
  uint32_t crc = ~0u;
  for (uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
  }
  return ~crc;
}

void append_record(std::vector<uint8_t>& file, const std::vector<uint8_t>& data) {
  const uint64_t length = data.size();
  uint8_t header[12];
  std::memcpy(header, &length, 8);
  const uint32_t length_crc = mask_crc(crc32c(header, 8));
  std::memcpy(header + 8, &length_crc, 4);
  file.insert(file.end(), header, header + 12);
  file.insert(file.end(), data.begin(), data.end());
  const uint32_t data_crc = mask_crc(crc32c(data.data(), data.size()));
  uint8_t footer[4];
  std::memcpy(footer, &data_crc, 4);
  file.insert(file.end(), footer, footer + 4);
}

struct Scan {
  std::vector<uint32_t> starts, lengths;
  ScanReport report;
  Scan(const std::vector<uint8_t>& chunk, size_t from = 0, bool checks_data = true, size_t capacity = 64)
      : starts(capacity), lengths(capacity) {
    // A copy of exactly this size: the vector's own memory may be larger.
    std::vector<uint8_t> exact(chunk);
    exact.shrink_to_fit();
    report = scan_records(exact.data(), exact.size(), from, checks_data, starts.data(), lengths.data(), capacity);
  }
};

}  // namespace

TEST("CRC-32C of the published strings") {
  const std::string digits = "123456789";
  CHECK_EQ(crc32c(reinterpret_cast<const uint8_t*>(digits.data()), 9), 0xe3069283u);
  const std::vector<uint8_t> zeros(32, 0), ones(32, 0xff);
  CHECK_EQ(crc32c(zeros.data(), 32), 0x8a9136aau);
  CHECK_EQ(crc32c(ones.data(), 32), 0x62a8ab43u);
}

TEST("the instruction and the tables agree with a loop over bits, for all lengths and alignments") {
  for (size_t length = 0; length < 80; length++)
    for (size_t offset = 0; offset < 9; offset++) {
      const auto bytes = bytes_of(offset + length, static_cast<uint32_t>(length));
      const std::vector<uint8_t> tail(bytes.begin() + static_cast<std::ptrdiff_t>(offset), bytes.end());
      CHECK_EQ(crc32c(bytes.data() + offset, length), bit_by_bit(tail));
      CHECK_EQ(crc32c_by_tables(bytes.data() + offset, length), bit_by_bit(tail));
    }
  for (size_t length : {3071u, 3072u, 3073u, 6143u, 6144u, 9301u, 70001u}) {
    const auto bytes = bytes_of(length, 7);
    CHECK_EQ(crc32c(bytes.data(), length), bit_by_bit(bytes));
    CHECK_EQ(crc32c_by_tables(bytes.data(), length), bit_by_bit(bytes));
  }
}

TEST("a chunk that is cut anywhere gives the whole records before the cut, and what the next one needs") {
  std::vector<uint8_t> file;
  const std::vector<size_t> sizes = {0, 1, 30, 200};
  std::vector<size_t> ends = {0};
  for (size_t size : sizes) {
    append_record(file, bytes_of(size, 3));
    ends.push_back(file.size());
  }
  for (size_t cut = 0; cut <= file.size(); cut++) {
    const Scan scan(std::vector<uint8_t>(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(cut)));
    size_t whole = 0;
    while (whole < sizes.size() && ends[whole + 1] <= cut) whole++;
    CHECK_EQ(scan.report.count, whole);
    CHECK_EQ(scan.report.consumed, ends[whole]);
    CHECK(scan.report.problem == ScanProblem::none);
    const bool has_header = cut - ends[whole] >= record_header_bytes;
    CHECK_EQ(scan.report.needed, has_header ? sizes[whole] + record_framing_bytes : record_framing_bytes);
    for (size_t i = 0; i < whole; i++) {
      CHECK_EQ(scan.starts[i], ends[i] + record_header_bytes);
      CHECK_EQ(scan.lengths[i], sizes[i]);
    }
  }
}

TEST("every flipped bit is noticed, and records before it are found") {
  std::vector<uint8_t> file;
  append_record(file, bytes_of(9, 1));
  const size_t second = file.size();
  append_record(file, bytes_of(20, 2));
  for (size_t bit = 8 * second; bit < 8 * file.size(); bit++) {
    auto damaged = file;
    damaged[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const Scan scan(damaged);
    CHECK_EQ(scan.report.count, 1u);
    CHECK_EQ(scan.report.consumed, second);
    const bool in_header = bit / 8 < second + record_header_bytes;
    CHECK(scan.report.problem == (in_header ? ScanProblem::length_checksum : ScanProblem::data_checksum));
    CHECK_EQ(Scan(damaged, 0, false).report.count, in_header ? 1u : 2u);
  }
}

TEST("full lists stop the scan, which goes on from where it stopped") {
  std::vector<uint8_t> file;
  for (uint32_t i = 0; i < 5; i++) append_record(file, bytes_of(i, i));
  const Scan first(file, 0, true, 3);
  CHECK_EQ(first.report.count, 3u);
  CHECK_EQ(first.report.needed, 0u);
  const Scan second(file, first.report.consumed, true, 3);
  CHECK_EQ(second.report.count, 2u);
  CHECK_EQ(second.report.consumed, file.size());
  CHECK_EQ(Scan(file, file.size()).report.count, 0u);
}

TEST("a length that is too large is a problem even if its checksum is right") {
  std::vector<uint8_t> header(12);
  const uint64_t length = max_record_bytes + 1;
  std::memcpy(header.data(), &length, 8);
  const uint32_t crc = mask_crc(crc32c(header.data(), 8));
  std::memcpy(header.data() + 8, &crc, 4);
  CHECK(Scan(header).report.problem == ScanProblem::too_long);
  CHECK_EQ(Scan(header).report.length, length);
}
