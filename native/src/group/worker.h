// The thread of a group: runs queued batches in order while the main thread does something else. Each group has one,
// because two groups must be able to wait independently: with one thread, rank 0 in an operation of
// set A and rank 1 in one of set B would wait for each other forever.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "group.h"

namespace hvd {

struct Batch {
  std::vector<Operation> operations;
  std::function<Status(Group&)> task;  // runs instead of operations, if `posted` is set from the beginning
  Patience patience{};
  bool passive = false;  // posts only after another member has
  std::shared_ptr<Trace> trace;  // while a timeline is on
  // The rest belongs to the worker, under its mutex, until `finished`.
  bool posted = false;
  bool finished = false;
  Status status = Status::done;
  virtual ~Batch() = default;
};

class Worker {
 public:
  // `finished` is called on the worker's thread, for every batch that was not withdrawn.
  Worker(Group& group, std::function<void(Batch*)> finished);
  ~Worker();  // ends the batch under way with Status::stopped
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void submit(Batch* batch);
  // Returns the batches that have not posted; the caller owns them again. Ends the halt that follows a mismatch.
  std::vector<Batch*> take_back();
  // Blocks until the batch is over, or `stall_ns` (if not 0) have passed: Status::stalled.
  Status wait(Batch* batch, int64_t stall_ns);
  // After a failure of the job: blocks until the thread has ended the batch under way, or the time is over.
  void settle(int64_t timeout_ns);

 private:
  void work();
  bool post_first(Batch* batch, bool passive, int64_t timeout_ns);
  Status run(Batch& batch);

  Group& group_;
  std::function<void(Batch*)> finished_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch*> queue_;
  Batch* current_ = nullptr;
  bool halted_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace hvd
