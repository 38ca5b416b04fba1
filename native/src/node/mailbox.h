// The arguments and results of a quick call besides its arrays, in memory that both sides share: each argument passed
// through Node-API costs some nanoseconds.
#pragma once

#include <time.h>

#include "group-handle.h"

namespace hvd::node {

// The places; src/transport/native/quick-mailbox.ts has the same. `small`: room for a small result. `quick_counts`: those of
// the operation, or afterwards the bytes received from each member.
enum Mailbox {
  finished_at,
  operation_code,
  fingerprint_lower,
  fingerprint_upper,
  quick_prescale,
  quick_postscale,
  quick_root,
  result_place,
  small_result_bytes,
  list_length,
  count_of_counts,
  is_traced,
  mark_count,
  marks,
  small = marks + 2 * Trace::max_marks,
  quick_counts = small + 8
};

// Where the result goes; the numbers are those of src/transport/transport.ts.
enum class Place { input = 0, output = 1, small = 2 };
inline Place place_of(const double* mailbox) { return static_cast<Place>(static_cast<int>(mailbox[result_place])); }

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

}  // namespace hvd::node
