#include "worker.h"

#include <chrono>

namespace hvd {

Worker::Worker(Group& group, std::function<void(Batch*)> finished)
    : group_(group), finished_(std::move(finished)), thread_(&Worker::work, this) {}

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  group_.stop();
  changed_.notify_all();
  thread_.join();
}

void Worker::submit(Batch* batch) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(batch);
  }
  changed_.notify_all();
}

std::vector<Batch*> Worker::take_back() {
  std::lock_guard lock(mutex_);
  std::vector<Batch*> batches;
  if (current_ && !current_->posted) {
    batches.push_back(current_);
    current_ = nullptr;  // tells the worker
  }
  std::deque<Batch*> posted;  // by the main thread, and not started here yet: at most the first
  for (Batch* batch : queue_) (batch->posted ? posted.push_back(batch) : batches.push_back(batch));
  queue_ = std::move(posted);
  halted_ = false;
  return batches;
}

Status Worker::wait(Batch* batch, int64_t stall_ns) {
  std::unique_lock lock(mutex_);
  auto over = [&] { return batch->finished; };
  if (stall_ns > 0) {
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(stall_ns), over)) return Status::stalled;
  } else {
    changed_.wait(lock, over);
  }
  return batch->status;
}

void Worker::settle(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return !current_ || !current_->posted; });
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || (!halted_ && !queue_.empty()); });
    if (stop_) break;
    Batch* batch = queue_.front();
    queue_.pop_front();
    current_ = batch;
    const bool posted = batch->posted, passive = batch->passive;
    const int64_t timeout_ns = batch->patience.timeout_ns;
    lock.unlock();
    if (!posted && !post_first(batch, passive, timeout_ns)) {  // taken back: the batch may be gone already
      lock.lock();
      continue;
    }
    Status status = run(*batch);
    group_.set_trace(nullptr);
    lock.lock();
    current_ = nullptr;
    batch->status = status;
    batch->finished = true;
    halted_ = status == Status::mismatch;
    changed_.notify_all();
    lock.unlock();
    finished_(batch);
    lock.lock();
  }
}

// False if the batch was taken back while it waited for another member to begin. Until it has posted, the batch
// may be taken back and freed at any time: it is touched only under the mutex, and only while it is current.
bool Worker::post_first(Batch* batch, bool passive, int64_t timeout_ns) {
  for (const int64_t since = monotonic_ns();;) {
    {
      // Once the batch has been taken back, the group belongs to the caller. Even checking the group may read from
      // sockets, so that happens under the mutex. nap() only sleeps.
      std::lock_guard lock(mutex_);
      if (current_ != batch) return false;
      // Another member has begun, or none will: then waiting for the others reports why.
      if (!passive || stop_ || group_.anyone_started() || group_.check_idle() != Status::done ||
          monotonic_ns() - since > timeout_ns) {
        batch->posted = true;
        break;
      }
    }
    group_.nap(1'000'000);
  }
  group_.set_trace(batch->trace.get());
  group_.begin(batch->operations.front());
  return true;
}

Status Worker::run(Batch& batch) {
  group_.set_trace(batch.trace.get());
  if (batch.task) return batch.task(group_);
  bool first = true;
  for (Operation& operation : batch.operations) {
    if (!first) group_.begin(operation);
    first = false;
    if (Status status = group_.resume(operation, batch.patience); status != Status::done) return status;
  }
  return Status::done;
}

}  // namespace hvd
