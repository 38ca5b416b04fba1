// A mutex for calls of a library that may block for long: a thread that waits for it can give up, because the job has
// failed, it was stopped, or its deadline has passed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace hvd {

class PatientMutex {
 public:
  // Waits while another thread holds it. False, and not locked: `gives_up()`, which is asked every few milliseconds.
  template <class GivesUp>
  bool lock(const GivesUp& gives_up) {
    std::unique_lock lock(mutex_);
    while (is_held_) {
      changed_.wait_for(lock, std::chrono::milliseconds(5));
      if (is_held_ && gives_up()) return false;
    }
    is_held_ = true;
    return true;
  }
  void unlock() {
    {
      std::lock_guard lock(mutex_);
      is_held_ = false;
    }
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
};

}  // namespace hvd
