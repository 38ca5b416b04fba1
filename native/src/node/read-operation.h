// Reads an operation, and how long to wait for it, from TypeScript's description.
#pragma once

#include "../group/operation.h"
#include "values.h"

namespace hvd::node {

// The layout of an operation's description, a Float64Array; src/transport/native/codes.ts writes it.
enum Field { kind, dtype, op, root, fingerprint_low, fingerprint_high, prescale, postscale, passive, timeout_ms, stall_ms, wire, counts };

// Waking a sleeping thread costs up to 50 µs, so a thread sleeps only after a few times that; yielding leaves
// the core to others that can use it. With more ranks than cores, a peer may have to wait for a core first.
inline int64_t yield_ns(int spins) { return spins > 0 ? 200'000 : 1'000'000; }

inline Patience patience_of(const double* fields, int spins) {
  return {spins, yield_ns(spins), static_cast<int64_t>(fields[timeout_ms] * 1e6),
          static_cast<int64_t>(fields[stall_ms] * 1e6), true};
}

// A group's thread never spins, and yields its core early: the main thread computes at the same time.
inline Patience in_background(Patience patience) {
  patience.spins = 0;
  patience.yield_ns = 50'000;
  patience.may_move = false;
  return patience;
}

// `inputs` and `outputs` are arrays of typed arrays of the same length.
inline void read_operation(napi_env env, napi_value description, napi_value inputs, napi_value outputs, Operation& operation) {
  Typed fields_ = typed_array(env, description);
  const double* fields = reinterpret_cast<const double*>(fields_.data);
  operation.kind = static_cast<Kind>(fields[kind]);
  operation.dtype = static_cast<DType>(fields[dtype]);
  operation.op = static_cast<Op>(fields[op]);
  operation.root = static_cast<int>(fields[root]);
  operation.fingerprint = static_cast<uint64_t>(fields[fingerprint_low]) |
                          static_cast<uint64_t>(fields[fingerprint_high]) << 32;
  operation.prescale = fields[prescale];
  operation.postscale = fields[postscale];
  operation.narrows = fields[wire] != 0;
  if (operation.narrows) operation.dtype = static_cast<DType>(fields[wire]);
  operation.counts.clear();
  for (size_t i = counts; i < fields_.bytes / sizeof(double); i++)
    operation.counts.push_back(static_cast<uint64_t>(fields[i]));
  uint32_t count = 0;
  napi_get_array_length(env, inputs, &count);
  operation.buffers.clear();
  for (uint32_t i = 0; i < count; i++) {
    napi_value in, out;
    napi_get_element(env, inputs, i, &in);
    napi_get_element(env, outputs, i, &out);
    Typed from = typed_array(env, in), to = typed_array(env, out);
    operation.buffers.push_back({from.data, to.data, operation.narrows ? from.bytes / 2 : from.bytes});
  }
}

}  // namespace hvd::node
