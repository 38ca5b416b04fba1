// What the functions of a group's JavaScript object share.
#pragma once

#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "../group/worker.h"
#include "values.h"

namespace hvd::node {

struct AddonBatch final : Batch {
  uint32_t id = 0;
  napi_ref keep = nullptr;  // the arrays it works on
  bool consumed = false;    // waitSync() has returned its result; the callback is not called
  ~AddonBatch() override {
    for (Operation& operation : operations) std::free(operation.result);  // unless it was adopted
  }
};

struct GroupHandle {
  std::unique_ptr<Group> group;    // gone when the object is closed
  std::unique_ptr<Worker> worker;  // started with the first batch it has to run
  napi_threadsafe_function report = nullptr;
  std::unordered_map<uint32_t, AddonBatch*> batches;
  int spins = 0;
  double* mailbox = nullptr;
  Patience defaults{};
  Operation fast;     // reused by allreduceNow
  Operation current;  // of run()
  Patience current_patience{};
  napi_value current_result = nullptr;  // while run() is on the stack
  napi_ref current_keep = nullptr;      // the arrays of what has stalled and may be resumed
  Trace trace;                          // of what runs on the main thread
  napi_env env = nullptr;
};

}  // namespace hvd::node
