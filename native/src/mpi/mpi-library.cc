#include "mpi-library.h"

#include <dlfcn.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>

namespace hvd {

namespace {

// The library's thread. It is never joined: it may hang in a call that waits for processes that are gone.
struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
};

Queue& queue() {
  static Queue* only = [] {
    auto* made = new Queue;
    std::thread([made] {
      for (;;) {
        std::function<void()> task;
        {
          std::unique_lock lock(made->mutex);
          made->changed.wait(lock, [&] { return !made->tasks.empty(); });
          task = std::move(made->tasks.front());
          made->tasks.pop_front();
        }
        task();
      }
    }).detach();
    return made;
  }();
  return *only;
}

// Open MPI loads components that look up its symbols in the global scope, but an addon is loaded into a local scope.
void make_global() {
  Dl_info where;
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &where) && where.dli_fname)
    dlopen(where.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

}  // namespace

MpiLibrary& MpiLibrary::instance() {
  static auto* only = new MpiLibrary;
  return *only;
}

bool MpiLibrary::run(const Task& task, int64_t timeout_ns, const std::function<bool()>& has_failed) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    std::atomic<bool> is_abandoned{false};
  };
  auto shared = std::make_shared<Shared>();
  {
    std::lock_guard lock(queue().mutex);
    queue().tasks.push_back([task, shared] {
      task(shared->is_abandoned);
      std::lock_guard done(shared->mutex);
      shared->is_done = true;
      shared->changed.notify_all();
    });
  }
  queue().changed.notify_all();
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  std::unique_lock lock(shared->mutex);
  while (!shared->is_done) {
    shared->changed.wait_for(lock, std::chrono::milliseconds(20));
    if (shared->is_done) break;
    if (has_failed() || std::chrono::steady_clock::now() > end) {
      state_ = State::broken;
      shared->is_abandoned.store(true, std::memory_order_release);
      return false;
    }
  }
  return true;
}

bool MpiLibrary::start(bool is_single_threaded, int64_t timeout_ns, const std::function<bool()>& has_failed,
                       std::string& error) {
  if (!start_mutex_.lock(has_failed)) {
    error = "it was given up while MPI_Init waited for the other processes";
    return false;
  }
  const bool is_started = start_now(is_single_threaded, timeout_ns, has_failed, error);
  start_mutex_.unlock();
  return is_started;
}

bool MpiLibrary::start_now(bool is_single_threaded, int64_t timeout_ns, const std::function<bool()>& has_failed,
                           std::string& error) {
  if (state_ == State::started) return true;
  if (state_ == State::finished) {
    error = "MPI was finalized, and cannot be started twice in one process";
    return false;
  }
  if (state_ == State::broken) {
    error = "MPI has already failed in this process";
    return false;
  }
  struct Result {
    int code = MPI_SUCCESS, provided = MPI_THREAD_SINGLE, rank = -1, size = 0;
  };
  auto result = std::make_shared<Result>();
  const bool is_over = run(
      [result, is_single_threaded](const std::atomic<bool>&) {
        make_global();
        int is_initialized = 0;
        MPI_Initialized(&is_initialized);
        if (is_initialized)
          MPI_Query_thread(&result->provided);
        else
          result->code = MPI_Init_thread(nullptr, nullptr, is_single_threaded ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE,
                                         &result->provided);
        if (result->code != MPI_SUCCESS) return;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_rank(MPI_COMM_WORLD, &result->rank);
        MPI_Comm_size(MPI_COMM_WORLD, &result->size);
      },
      timeout_ns, has_failed);
  if (!is_over) {
    error = has_failed() ? "it was given up while MPI_Init waited for the other processes"
                         : "MPI_Init waited too long for the other processes; have all of them called init()?";
    return false;
  }
  if (result->code != MPI_SUCCESS) {
    state_ = State::broken;
    error = "MPI_Init failed: " + mpi_error(result->code);
    return false;
  }
  is_multiple_ = result->provided == MPI_THREAD_MULTIPLE && !is_single_threaded;
  rank_ = result->rank;
  size_ = result->size;
  state_ = State::started;
  return true;
}

void MpiLibrary::finish(bool is_healthy) {
  if (state_ != State::started) return;
  state_ = State::finished;
  if (!is_healthy) return;
  // A rank that finishes early waits here for others that are still running, but not forever.
  constexpr int64_t max_wait_ns = 600'000'000'000;
  run(
      [](const std::atomic<bool>&) {
        int is_finalized = 0;
        MPI_Finalized(&is_finalized);
        if (!is_finalized) MPI_Finalize();
      },
      max_wait_ns, [] { return false; });
}

std::string mpi_error(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<size_t>(length));
}

}  // namespace hvd
