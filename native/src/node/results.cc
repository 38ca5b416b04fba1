#include "results.h"

#include <cstdlib>
#include <cstring>

namespace hvd::node {

char* allocate_now(void* context, size_t bytes) {
  auto* handle = static_cast<GroupHandle*>(context);
  void* data = nullptr;
  if (napi_create_arraybuffer(handle->env, bytes, &data, &handle->current_result) != napi_ok) {
    napi_value ignored;
    napi_get_and_clear_last_exception(handle->env, &ignored);
    return nullptr;
  }
  static char nothing;
  return bytes == 0 ? &nothing : static_cast<char*>(data);
}

char* allocate_later(void*, size_t bytes) { return static_cast<char*>(std::malloc(bytes == 0 ? 1 : bytes)); }

namespace {
napi_value received_counts(napi_env env, const Operation& operation) {
  napi_value list;
  napi_create_array_with_length(env, operation.received.size(), &list);
  for (uint32_t i = 0; i < operation.received.size(); i++)
    napi_set_element(env, list, i, from_int(env, static_cast<int64_t>(operation.received[i])));
  return list;
}
}  // namespace

napi_value result_pair(napi_env env, napi_value buffer, const Operation& operation) {
  return array_of(env, {buffer, received_counts(env, operation)});
}

napi_value adopt_result(napi_env env, Operation& operation) {
  napi_value buffer = nullptr;
  char* memory = operation.result;
  operation.result = nullptr;
  auto release = [](napi_env, void* data, void*) { std::free(data); };
  if (operation.result_bytes > 0 &&
      napi_create_external_arraybuffer(env, memory, operation.result_bytes, release, nullptr, &buffer) == napi_ok)
    return result_pair(env, buffer, operation);
  // It is empty, or this build of V8 does not accept external memory, or the thread is being terminated: then nothing can be
  // made, and nobody will read it.
  void* copy = nullptr;
  const bool made = napi_create_arraybuffer(env, operation.result_bytes, &copy, &buffer) == napi_ok;
  if (made && operation.result_bytes > 0) std::memcpy(copy, memory, operation.result_bytes);
  std::free(memory);
  if (!made) return undefined(env);
  return result_pair(env, buffer, operation);
}

napi_value results_of(napi_env env, AddonBatch& batch) {
  napi_value list;
  napi_create_array_with_length(env, batch.operations.size(), &list);
  for (uint32_t i = 0; i < batch.operations.size(); i++)
    if (batch.operations[i].result) napi_set_element(env, list, i, adopt_result(env, batch.operations[i]));
  return list;
}

void keep_current(napi_env env, GroupHandle* handle, Status status, napi_value arrays) {
  if (status == Status::stalled) napi_create_reference(env, arrays, 1, &handle->current_keep);
}

void release_current(napi_env env, GroupHandle* handle, Status status) {
  if (status == Status::stalled) return;
  if (handle->current_keep) napi_delete_reference(env, handle->current_keep);
  handle->current_keep = nullptr;
}

void discard(napi_env env, AddonBatch* batch) {
  if (batch->keep) napi_delete_reference(env, batch->keep);
  delete batch;
}

}  // namespace hvd::node
