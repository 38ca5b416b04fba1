#include "quick-operation.h"

#include <cstring>

#include "results.h"

namespace hvd::node {

namespace {

bool is_gather(const Operation& operation) { return operation.kind == Kind::allgather || operation.kind == Kind::alltoall; }

// If the result is as long as the output, it goes there; otherwise into new memory.
char* allocate_quick(void* context, size_t bytes) {
  auto* handle = static_cast<GroupHandle*>(context);
  if (bytes == handle->quick_output.bytes && handle->quick_output.data) return handle->quick_output.data;
  return allocate_now(context, bytes);
}

napi_value element(napi_env env, napi_value list, uint32_t i) {
  napi_value value = nullptr;
  napi_get_element(env, list, i, &value);
  return value;
}

char* small_of(GroupHandle* handle) { return reinterpret_cast<char*>(handle->mailbox + small); }

size_t travelling(const Operation& operation, size_t bytes) { return operation.narrows ? bytes / 2 : bytes; }

}  // namespace

Operation& read_quick(napi_env env, GroupHandle* handle, napi_value input, napi_value output) {
  Operation& operation = handle->fast;
  const double* mailbox = handle->mailbox;
  const auto code = static_cast<uint32_t>(mailbox[operation_code]);
  operation.kind = static_cast<Kind>(code & 0xf);
  operation.dtype = static_cast<DType>(code >> 4 & 0xf);
  operation.op = static_cast<Op>(code >> 8 & 0xf);
  operation.narrows = (code >> 12 & 1) != 0;
  operation.fingerprint = static_cast<uint32_t>(static_cast<int32_t>(mailbox[fingerprint_lower])) |
                          static_cast<uint64_t>(static_cast<int32_t>(mailbox[fingerprint_upper])) << 32;
  operation.prescale = mailbox[quick_prescale];
  operation.postscale = mailbox[quick_postscale];
  operation.root = static_cast<int>(mailbox[quick_root]);
  operation.counts.resize(static_cast<size_t>(mailbox[count_of_counts]));
  for (size_t i = 0; i < operation.counts.size(); i++) operation.counts[i] = static_cast<uint64_t>(mailbox[quick_counts + i]);
  operation.result = nullptr;

  const Place place = place_of(mailbox);
  if (operation.kind == Kind::barrier) {
    operation.buffers.clear();
  } else if (const auto length = static_cast<uint32_t>(mailbox[list_length])) {
    operation.buffers.resize(length);
    for (uint32_t i = 0; i < length; i++) {
      const Typed in = typed_array(env, element(env, input, i));
      char* out = place == Place::output ? typed_array(env, element(env, output, i)).data : in.data;
      operation.buffers[i] = {in.data, out, travelling(operation, in.bytes)};
    }
  } else {
    const Typed in = typed_array(env, input);
    Typed out = in;
    // A small result arrives in the mailbox, unless the group keeps its place: the round may last longer than this call.
    const bool is_kept = place == Place::small && !is_gather(operation) && handle->group->keeps_outputs();
    if (place == Place::output || is_kept) out = typed_array(env, output);
    if (place == Place::small && !is_kept) out = {small_of(handle), static_cast<size_t>(mailbox[small_result_bytes])};
    operation.buffers.resize(1);
    operation.buffers[0] = {in.data, out.data, travelling(operation, in.bytes)};
    if (is_gather(operation)) {
      operation.buffers[0].out = in.data;  // a placeholder: the result is new memory
      operation.allocate = allocate_quick;
      operation.allocate_context = handle;
      handle->env = env;
      handle->quick_output = out;
      handle->current_result = nullptr;
    }
  }
  return operation;
}

void detach_quick(napi_env env, GroupHandle* handle, napi_value output, char* (*allocate)(void*, size_t), Operation& operation) {
  if (is_gather(operation))
    operation.allocate = allocate;
  else if (place_of(handle->mailbox) == Place::small && !operation.buffers.empty())
    operation.buffers[0].out = typed_array(env, output).data;
}

napi_value end_quick(napi_env env, GroupHandle* handle, const Operation& operation) {
  if (is_gather(operation)) {
    if (napi_value memory = handle->current_result) {
      handle->current_result = nullptr;
      return result_pair(env, memory, operation);
    }
    for (size_t i = 0; i < operation.received.size(); i++)
      handle->mailbox[quick_counts + i] = static_cast<double>(operation.received[i]);
  } else if (place_of(handle->mailbox) == Place::small && operation.buffers[0].out != small_of(handle)) {
    // The caller looks for it there.
    std::memcpy(small_of(handle), operation.buffers[0].out, static_cast<size_t>(handle->mailbox[small_result_bytes]));
  }
  napi_value done;
  napi_create_int32(env, static_cast<int>(Status::done), &done);  // the cheapest kind of number
  return done;
}

}  // namespace hvd::node
