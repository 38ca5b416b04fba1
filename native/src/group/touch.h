// One write, or a few in a row, into the memory of another rank: the writer's side of NOTE [Hands off].
//
//   const Touch touch(control, peer.gone);
//   if (!touch) return …;
//   std::memcpy(…);
#pragma once

#include <atomic>

#include "control.h"

namespace hvd {

class Touch {
 public:
  Touch(const Control& control, const std::atomic<uint32_t>& gone) : touching_(control.touching()) {
    touching_.fetch_add(1, std::memory_order_seq_cst);
    may_write_ = !control.closed() && gone.load(std::memory_order_seq_cst) == 0;
    if (!may_write_) return;
    if (Hook hook = before_write.load(std::memory_order_relaxed); __builtin_expect(hook != nullptr, 0)) hook();
  }
  ~Touch() { touching_.fetch_sub(1, std::memory_order_release); }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;

  explicit operator bool() const { return may_write_; }

  // For tests: called between the look and the write.
  using Hook = void (*)();
  static inline std::atomic<Hook> before_write{nullptr};

 private:
  std::atomic<uint32_t>& touching_;
  bool may_write_;
};

}  // namespace hvd
