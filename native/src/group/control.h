// The job's control block, mapped. src/control/control-block.ts describes the layout and who writes what; here
// are the parts that a waiting thread checks, and the life word of this process.
//
// NOTE [Hands off]. Ranks of one host write into each other's memory. A rank that was preempted or stopped between its look at
// the failure and its copy would write later, into memory that the other rank has reused. So a writer counts itself in its
// page (`touching`) before it looks at `closed` in page 0 and at `gone` of the member it writes to, and writes only if neither
// is set (touch.h). A rank whose operation has failed sets `closed`, or `gone` if only its group ends, and then waits until it
// has seen `touching` of every other rank of the host at 0, or a proof that its process is dead. All of these are sequentially
// consistent: one of the two sees the other, so nobody can begin to write after that wait.
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

// How long a rank waits for the hands of others; see NOTE [Hands off].
struct FenceLimits {
  int64_t kill_after_ns;     // a rank that still touches is killed; 0: never
  int64_t give_up_after_ns;
};

class Control {
 public:
  // Maps the control block behind `fd` (kept by the caller) and starts the life thread of `rank`. Throws std::system_error.
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

  // How many threads of this process are writing into the memory of others.
  std::atomic<uint32_t>& touching() const { return page(rank_)[touching_word]; }
  bool closed() const { return job()[closed_word].load(std::memory_order_seq_cst) != 0; }
  // The job has failed: nobody begins to write into the memory of another rank any more, and when this returns nobody is
  // writing into the memory of this one. Returns the rank that may still do so after the time is over, -1 if there is none.
  // Not while this thread is touching itself.
  int fence(const FenceLimits& limits) {
    job()[closed_word].store(1, std::memory_order_seq_cst);
    const int rank = wait_for_hands_off(limits);
    is_fenced_.store(true, std::memory_order_relaxed);
    return rank;
  }
  bool is_fenced() const { return is_fenced_.load(std::memory_order_relaxed); }
  // The waiting alone, for a member that nobody can begin to write to because it is gone.
  int wait_for_hands_off(const FenceLimits& limits) const;

 private:
  static constexpr int pid_word = 1, start_ticks_word = 6, touching_word = 96, fenced_word = 97;
  static constexpr int closed_word = 4;
  bool is_proven_dead(int rank) const;
  void kill_process_of(int rank) const;
  static constexpr size_t page_bytes = 4096;
  std::atomic<uint32_t>* job() const { return reinterpret_cast<std::atomic<uint32_t>*>(memory_); }
  std::atomic<uint32_t>* page(int rank) const {
    return reinterpret_cast<std::atomic<uint32_t>*>(memory_ + page_bytes * (1 + static_cast<size_t>(rank)));
  }
  void live();

  char* memory_;
  size_t bytes_;
  int rank_;
  int ranks_;
  std::atomic<bool> is_fenced_{false};
  std::atomic<uint32_t> stop_{0};
  std::atomic<uint32_t> started_{0};
  int robust_error_ = 0;  // written before started_
  std::thread life_;
};

}  // namespace hvd
