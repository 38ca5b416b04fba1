// Sleeping on a 32-bit word, shared between processes or private to this one. Timeouts are in nanoseconds; 0 means no
// timeout.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace hvd {

inline void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, int64_t timeout_ns, int flags = 0) {
  timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT | flags, expected, timeout_ns > 0 ? &timeout : nullptr, nullptr, 0);
}
inline void futex_wake(std::atomic<uint32_t>& word, int flags = 0) {
  syscall(SYS_futex, &word, FUTEX_WAKE | flags, INT_MAX, nullptr, nullptr, 0);
}
inline void futex_wait_private(std::atomic<uint32_t>& word, uint32_t expected, int64_t timeout_ns) {
  futex_wait(word, expected, timeout_ns, FUTEX_PRIVATE_FLAG);
}
inline void futex_wake_private(std::atomic<uint32_t>& word) { futex_wake(word, FUTEX_PRIVATE_FLAG); }

inline int64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace hvd
