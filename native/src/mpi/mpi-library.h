// The MPI library of this process: started once, on a dedicated thread that also finalizes it. Calls from other threads go
// through `locked()`, which locks only if the library does not support calls from several threads at a time.
#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace hvd {

class MpiLibrary {
 public:
  // A process has one library.
  static MpiLibrary& instance();

  // Starts MPI if it has not been started. Waits at most `timeout_ns` for the other processes to do the same. False: `error`.
  bool start(bool is_single_threaded, int64_t timeout_ns, const std::function<bool()>& has_failed, std::string& error);
  // MPI_Finalize, which waits for all processes, if healthy; after a failure nothing.
  void finish(bool is_healthy);

  // Runs `task` on the library's thread. False: it did not end in time; then the thread is lost.
  bool run(const std::function<void()>& task, int64_t timeout_ns, const std::function<bool()>& has_failed);

  template <class Call>
  int locked(const Call& call) {
    if (is_multiple_) return call();
    std::lock_guard lock(mutex_);
    return call();
  }
  bool is_usable() const { return state_ == State::started; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  enum class State { never, started, broken, finished };
  std::atomic<State> state_{State::never};
  bool is_multiple_ = false;
  int rank_ = -1;
  int size_ = 0;
  std::mutex mutex_;
  std::mutex start_mutex_;
};

std::string mpi_error(int code);

}  // namespace hvd
