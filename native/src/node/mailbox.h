// The arguments and results of a quick call besides its arrays, in memory that both sides share: each argument passed
// through Node-API costs some nanoseconds.
#pragma once

#include <time.h>

#include "group-handle.h"

namespace hvd::node {

// The places; src/transport/native/addon-group.ts has the same.
enum Mailbox { finished_at, dtype_and_op, fingerprint_lower, fingerprint_upper, quick_postscale, has_output, is_traced, mark_count, marks };

// The coarse clock costs a few nanoseconds; a precise one would cost a tenth of a small operation.
inline void stamp(GroupHandle* handle) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  handle->mailbox[finished_at] = static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Starts or stops recording stages, as the caller asks for in the mailbox.
inline void begin_trace(GroupHandle* handle) {
  handle->trace.count = 0;
  handle->group->set_trace(handle->mailbox[is_traced] != 0 ? &handle->trace : nullptr);
}

// Pairs of stage and microseconds.
inline void tell_trace(GroupHandle* handle, const Trace& trace) {
  double* to = handle->mailbox + marks;
  for (size_t i = 0; i < trace.count; i++) {
    *to++ = static_cast<double>(trace.marks[i].stage);
    *to++ = static_cast<double>(trace.marks[i].at_ns) * 1e-3;
  }
  handle->mailbox[mark_count] = static_cast<double>(trace.count);
}

inline void end_trace(GroupHandle* handle) {
  if (handle->mailbox[is_traced] != 0) tell_trace(handle, handle->trace);
}

// Fills the group's reusable operation from (input, output) and the mailbox.
inline Operation& read_quick(napi_env env, GroupHandle* handle, const napi_value* arguments) {
  Operation& operation = handle->fast;
  const double* mailbox = handle->mailbox;
  Typed in = typed_array(env, arguments[0]);
  char* out = mailbox[has_output] != 0 ? typed_array(env, arguments[1]).data : in.data;
  auto code = static_cast<uint32_t>(mailbox[dtype_and_op]);
  operation.dtype = static_cast<DType>(code & 0xff);
  operation.op = static_cast<Op>(code >> 8);
  operation.fingerprint = static_cast<uint32_t>(static_cast<int32_t>(mailbox[fingerprint_lower])) |
                          static_cast<uint64_t>(static_cast<int32_t>(mailbox[fingerprint_upper])) << 32;
  operation.postscale = mailbox[quick_postscale];
  operation.buffers[0] = {in.data, out, in.bytes};
  return operation;
}

}  // namespace hvd::node
