// The MPI library of this process: started once, on a dedicated thread that also finalizes it. Calls from other threads go
// through `locked()`, which locks only if the library does not support calls from several threads at a time. Then a call
// may wait for another one that does not end (a communicator is being created, and a member is missing), so it can give up.
#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <string>

#include "patient-mutex.h"

namespace hvd {

class MpiLibrary {
 public:
  // A process has one library.
  static MpiLibrary& instance();

  // Starts MPI if it has not been started. Waits at most `timeout_ns` for the other processes to do the same. False: `error`.
  bool start(bool is_single_threaded, int64_t timeout_ns, const std::function<bool()>& has_failed, std::string& error);
  // MPI_Finalize, which waits for all processes, if healthy; after a failure nothing.
  void finish(bool is_healthy);

  // Runs `task` on the library's thread. False: it did not end in time; then the thread is lost, and the task's argument
  // becomes true.
  using Task = std::function<void(const std::atomic<bool>& is_abandoned)>;
  bool run(const Task& task, int64_t timeout_ns, const std::function<bool()>& has_failed);

  // The code that `call` returns, or `gave_up`: it was not called. Any thread.
  static constexpr int gave_up = -1;
  template <class Call, class GivesUp>
  int locked(const Call& call, const GivesUp& gives_up) {
    if (is_multiple_) return call();
    if (!mutex_.lock(gives_up)) return gave_up;
    const int code = call();
    mutex_.unlock();
    return code;
  }
  bool is_usable() const { return state_ == State::started; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  bool start_now(bool is_single_threaded, int64_t timeout_ns, const std::function<bool()>& has_failed, std::string& error);

  enum class State { never, started, broken, finished };
  std::atomic<State> state_{State::never};
  bool is_multiple_ = false;
  int rank_ = -1;
  int size_ = 0;
  PatientMutex mutex_;
  PatientMutex start_mutex_;
};

std::string mpi_error(int code);

}  // namespace hvd
