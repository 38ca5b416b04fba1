// The batch's control block, mapped. src/transport/control-block.ts describes the layout and who writes what; here
// are the parts that a waiting thread looks at, and the life word of this process.
//
// Life word: a robust futex owned by a thread that lives as long as the transport. When the process dies, however
// it dies, the kernel sets FUTEX_OWNER_DIED in it at once, before it takes the address space down (which is
// 30 ms for each GB and delays every other sign of death).
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace hvd {

class Control {
 public:
  // Maps the control block behind `fd` (kept by the caller) and starts the life thread of `rank`.
  Control(int fd, int rank, int ranks);
  // Peers see a clean exit if the caller has marked this rank as left, a death otherwise.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  bool failed() const { return batch()[2].load(std::memory_order_acquire) == 2; }
  enum class Presence { here, left, dead };
  Presence presence(int rank) const;

 private:
  static constexpr size_t page_bytes = 4096;
  std::atomic<uint32_t>* batch() const { return reinterpret_cast<std::atomic<uint32_t>*>(memory_); }
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
