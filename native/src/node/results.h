// The results of operations as JavaScript values, and how long the arrays of operations are kept alive: while the operation
// runs. After a failure the caller keeps them until it has called fence().
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

// Keeps the arrays of what ran on the main thread if it has stalled and will be resumed.
void keep_current(napi_env env, GroupHandle* handle, Status status, napi_value arrays);
// Releases them after it was resumed.
void release_current(napi_env env, GroupHandle* handle, Status status);
// Releases the arrays of a batch in the background, and deletes the batch.
void discard(napi_env env, AddonBatch* batch);

}  // namespace hvd::node
