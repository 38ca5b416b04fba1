// What operations give back to JavaScript, and how long the arrays they work on are kept.
#pragma once

#include "group-handle.h"

namespace hvd::node {

// Operation::allocate of what runs on the main thread (the context is the GroupHandle), and of what may run on another one.
char* allocate_now(void* context, size_t bytes);
char* allocate_later(void* context, size_t bytes);

// [ArrayBuffer, bytes from each member]
napi_value result_pair(napi_env env, napi_value buffer, const Operation& operation);
// The same, and takes over operation.result.
napi_value adopt_result(napi_env env, Operation& operation);
// One for each operation of the batch, or nothing in its place.
napi_value results_of(napi_env env, AddonBatch& batch);

// After a failure a peer may still write into the arrays of an operation (one that was stopped and goes on later): such arrays
// are never freed.
void keep_for_ever(napi_env env, Status status, napi_value arrays);
// The arrays of what ran on the main thread, unless it is done.
void keep_current(napi_env env, GroupHandle* handle, Status status, napi_value arrays);
// The same when it was resumed.
void release_current(napi_env env, GroupHandle* handle, Status status);
// The arrays of a batch in the background; the batch is no more.
void discard(napi_env env, AddonBatch* batch);

}  // namespace hvd::node
