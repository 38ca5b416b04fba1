// State that the functions of a group's JavaScript object share.
#pragma once

#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "../group/worker.h"
#include "values.h"

namespace hvd::node {

struct AddonBatch final : Batch {
  int64_t id = 0;           // counted in JavaScript, where integers have 53 bits
  napi_ref keep = nullptr;  // the arrays it works on
  bool consumed = false;    // waitSync() has returned its result; the callback is not called
  ~AddonBatch() override {
    for (Operation& operation : operations) std::free(operation.result);  // unless it was adopted
  }
};

struct GroupHandle {
  std::unique_ptr<Group> group;    // gone when the object is closed
  std::unique_ptr<Worker> worker;  // started with the first batch that may need it
  napi_threadsafe_function report = nullptr;
  std::unordered_map<int64_t, AddonBatch*> batches;
  int spins = 0;
  int64_t hands_off_ns = 0;  // see Group::withdraw()
  double* mailbox = nullptr;
  Patience defaults{};
  Operation fast;     // reused by quick calls
  Typed quick_output{nullptr, 0};  // where an allgather or alltoall among them goes if it is that long
  Operation current;  // of run()
  Patience current_patience{};
  napi_value current_result = nullptr;  // while run() is on the stack
  napi_ref current_keep = nullptr;      // the arrays of what has stalled and may be resumed
  Trace trace;                          // of what runs on the main thread
  napi_env env = nullptr;
};

}  // namespace hvd::node
