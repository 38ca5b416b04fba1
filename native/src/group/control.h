// The job's control block, mapped. src/control/control-block.ts describes the layout and who writes what; here
// are the parts that a waiting thread checks, and the life word of this process.
//
// The life word is a robust futex owned by a thread that lives as long as this object. When the process dies, in
// whatever way, the kernel sets FUTEX_OWNER_DIED in it at once, before it frees the address space (which takes
// 30 ms per GB and delays every other sign of death).
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "operation.h"

namespace hvd {

class Control {
 public:
  // Maps the control block behind `fd` (kept by the caller) and starts the life thread of `rank`.
  Control(int fd, int rank, int ranks);
  // Peers see a clean exit if the caller has marked this rank as left, a death otherwise.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  bool failed() const { return job()[2].load(std::memory_order_acquire) == 2; }
  enum class Presence { here, left, dead };
  Presence presence(int rank) const;
  // `failed`, or `peer_left` or `peer_lost` with the culprit, a member of the group of these ranks; else `done`.
  Status check(const std::vector<int>& ranks, int index, int& culprit) const;

 private:
  static constexpr size_t page_bytes = 4096;
  std::atomic<uint32_t>* job() const { return reinterpret_cast<std::atomic<uint32_t>*>(memory_); }
  std::atomic<uint32_t>* page(int rank) const {
    return reinterpret_cast<std::atomic<uint32_t>*>(memory_ + page_bytes * (1 + static_cast<size_t>(rank)));
  }
  void live();

  char* memory_;
  size_t bytes_;
  int rank_;
  std::atomic<uint32_t> stop_{0};
  std::atomic<uint32_t> started_{0};
  std::thread life_;
};

}  // namespace hvd
