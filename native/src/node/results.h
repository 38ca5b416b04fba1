// The results of operations as JavaScript values, and how long the arrays of operations are kept alive.
#pragma once

#include "group-handle.h"

namespace hvd::node {

// Operation::allocate for operations on the main thread (the context is the GroupHandle), and for those that may run on
// another thread.
char* allocate_now(void* context, size_t bytes);
char* allocate_later(void* context, size_t bytes);

// [ArrayBuffer, bytes from each member]
napi_value result_pair(napi_env env, napi_value buffer, const Operation& operation);
// The same, and takes over operation.result.
napi_value adopt_result(napi_env env, Operation& operation);
// One element for each operation of the batch; empty where there is no result.
napi_value results_of(napi_env env, AddonBatch& batch);

// After a failure a peer may still write into the arrays of an operation (a peer that was stopped and continues later):
// such arrays are never freed.
void keep_for_ever(napi_env env, Status status, napi_value arrays);
// Keeps the arrays of what ran on the main thread, unless it is done.
void keep_current(napi_env env, GroupHandle* handle, Status status, napi_value arrays);
// Releases them after it was resumed.
void release_current(napi_env env, GroupHandle* handle, Status status);
// Releases the arrays of a batch in the background, and deletes the batch.
void discard(napi_env env, AddonBatch* batch);

}  // namespace hvd::node
