#include "worker.h"

#include <chrono>

namespace hvd {

Worker::Worker(Group& group, std::function<void(Job*)> finished)
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

void Worker::submit(Job* job) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(job);
  }
  changed_.notify_all();
}

std::vector<Job*> Worker::take_back() {
  std::lock_guard lock(mutex_);
  std::vector<Job*> jobs;
  if (current_ && !current_->posted) {
    jobs.push_back(current_);
    current_ = nullptr;  // tells the worker
  }
  std::deque<Job*> posted;  // by the main thread, and not picked up yet: at most the first
  for (Job* job : queue_) (job->posted ? posted.push_back(job) : jobs.push_back(job));
  queue_ = std::move(posted);
  halted_ = false;
  return jobs;
}

Status Worker::wait(Job* job, int64_t stall_ns) {
  std::unique_lock lock(mutex_);
  auto over = [&] { return job->finished; };
  if (stall_ns > 0) {
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(stall_ns), over)) return Status::stalled;
  } else {
    changed_.wait(lock, over);
  }
  return job->status;
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || (!halted_ && !queue_.empty()); });
    if (stop_) break;
    Job* job = queue_.front();
    queue_.pop_front();
    current_ = job;
    const bool posted = job->posted, passive = job->passive;
    const int64_t timeout_ns = job->patience.timeout_ns;
    lock.unlock();
    if (!posted && !post_first(job, passive, timeout_ns)) {  // withdrawn: the job may be gone already
      lock.lock();
      continue;
    }
    Status status = run(*job);
    group_.set_trace(nullptr);
    lock.lock();
    current_ = nullptr;
    job->status = status;
    job->finished = true;
    halted_ = status == Status::mismatch;
    changed_.notify_all();
    lock.unlock();
    finished_(job);
    lock.lock();
  }
}

// False if the job was withdrawn while it waited for another member to begin. Until it has posted, the job
// may be taken back and freed at any time: it is touched under the mutex only, and only while it is current.
bool Worker::post_first(Job* job, bool passive, int64_t timeout_ns) {
  for (const int64_t since = monotonic_ns();;) {
    {
      // The group belongs to whoever has taken the job back, from that moment on: also a look at it is a call that may
      // read from sockets, so it happens under the mutex. nap() only sleeps.
      std::lock_guard lock(mutex_);
      if (current_ != job) return false;
      // Somebody else began, or nobody will: then waiting for the others tells why.
      if (!passive || stop_ || group_.anyone_started() || group_.check_idle() != Status::done ||
          monotonic_ns() - since > timeout_ns) {
        job->posted = true;
        break;
      }
    }
    group_.nap(1'000'000);
  }
  group_.set_trace(job->trace.get());
  group_.begin(job->operations.front());
  return true;
}

Status Worker::run(Job& job) {
  group_.set_trace(job.trace.get());
  bool first = true;
  for (Operation& operation : job.operations) {
    if (!first) group_.begin(operation);
    first = false;
    if (Status status = group_.resume(operation, job.patience); status != Status::done) return status;
  }
  return Status::done;
}

}  // namespace hvd
