// Which way of moving ordinary memory is faster on this machine: directly from and to the memory of the other processes
// (process_vm_readv, each byte copied once, system calls), or through the slots (each byte copied twice)? It depends on the
// processor and its kernel, so the members try both when their group opens. The slowest member's time counts, every member
// hears of it, and so all come to the same thresholds. Results of operations do not depend on them.
#include <sys/mman.h>

#include <algorithm>
#include <limits>

#include "shm-group.h"

namespace hvd {

namespace {

constexpr uint64_t calibration_fingerprint = 0x63616c6962726174;
constexpr int trials = 3;  // after one that warms up
constexpr double budget_us = 4000;
constexpr size_t never = std::numeric_limits<size_t>::max();
constexpr size_t KiB = 1024;

// Fresh pages, as large results have: the kernel faults them in one by one while it copies into them.
char* allocate(void*, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}


Operation operation_of(Kind kind, Op op, float* data, size_t bytes) {
  Operation operation;
  operation.kind = kind;
  operation.dtype = DType::float32;
  operation.op = op;
  operation.fingerprint = calibration_fingerprint;
  char* memory = reinterpret_cast<char*>(data);
  operation.buffers.push_back({memory, memory, bytes});
  operation.allocate = allocate;  // of an allgather: new memory, as users get it
  return operation;
}

}  // namespace

// The smallest, or largest, value of all members.
Status ShmGroup::agree(Op op, float& value, const Patience& patience) {
  Operation operation = operation_of(Kind::allreduce, op, &value, sizeof value);
  return run(operation, patience);
}

// The time of one operation of each way: with `threshold` at 0 bytes it goes directly, otherwise through the slots.
Status ShmGroup::compare_ways(Kind kind, std::vector<float>& tensor, size_t bytes, size_t& threshold, Comparison& comparison,
                              const Patience& patience) {
  comparison.direct_us = comparison.staged_us = std::numeric_limits<float>::max();
  for (int trial = 0; trial <= trials && comparison.spent_us < budget_us; trial++) {
    for (float* best : {&comparison.direct_us, &comparison.staged_us}) {
      threshold = best == &comparison.direct_us ? 0 : never;
      std::fill_n(tensor.begin(), bytes / sizeof(float), 1.0f);
      Operation operation = operation_of(kind, Op::max, tensor.data(), bytes);
      const int64_t since = monotonic_ns();
      const Status status = run(operation, patience);
      if (operation.result) munmap(operation.result, operation.result_bytes);
      if (status != Status::done) return status;
      auto took_us = static_cast<float>(static_cast<double>(monotonic_ns() - since) * 1e-3);
      if (Status status = agree(Op::max, took_us, patience); status != Status::done) return status;
      comparison.spent_us += took_us;
      if (trial > 0) *best = std::min(*best, took_us);
    }
  }
  return Status::done;
}

Status ShmGroup::calibrate(bool wanted, const Patience& patience) {
  if (size_ < 2) return Status::done;
  std::vector<float> tensor;
  try {
    if (wanted) tensor.resize(2048 * KiB / sizeof(float));
  } catch (const std::bad_alloc&) {
    wanted = false;
  }
  float all_want_it = wanted && can_copy_ ? 1 : 0;
  if (Status status = agree(Op::min, all_want_it, patience); status != Status::done) return status;
  if (all_want_it == 0) return Status::done;

  Comparison comparison;
  // Finds the size from which the direct way is faster, among those tried; what there was no time for stays as it was.
  auto find = [&](Kind kind, std::initializer_list<size_t> sizes, size_t& threshold) {
    const size_t by_default = threshold;
    size_t found = by_default;
    for (size_t bytes : sizes) {
      Status status = compare_ways(kind, tensor, bytes, threshold, comparison, patience);
      if (status != Status::done) return status;
      if (std::max(comparison.direct_us, comparison.staged_us) == std::numeric_limits<float>::max()) break;
      const bool is_direct_faster = comparison.direct_us < comparison.staged_us;
      found = is_direct_faster ? std::max(bytes / 4 * 3, by_default) : never;
      if (is_direct_faster) break;
    }
    threshold = found;
    return Status::done;
  };
  Status status = size_ == 2 ? find(Kind::allreduce, {256 * KiB, 1024 * KiB}, copy_from_)
                             : find(Kind::allreduce, {2048 * KiB}, copy_from_);
  if (status != Status::done) return status;
  return find(Kind::allgather, {64 * KiB, 256 * KiB, 1024 * KiB}, gather_from_);
}

}  // namespace hvd
