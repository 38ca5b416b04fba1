// An transport moves the bytes of operations that the members of a CrossGroup have agreed on. Members are numbered as in the
// group. All calls are collective, on one thread at a time; each blocks until it is done, has failed or is past the deadline
// (Patience), and looks at Control::failed() at least every millisecond while it waits. After anything but `done` the
// transport is of no use any more. All members get the same bits.
#pragma once

#include <cstddef>
#include <vector>

#include "../group/operation.h"

namespace hvd {

class Transport {
 public:
  virtual ~Transport() = default;

  // In place.
  virtual Status allreduce(char* data, size_t count, DType dtype, Op op, const Patience& patience) = 0;
  // In place: the own part, at its offset, is right afterwards; the rest is garbage. `counts`: elements of each member.
  virtual Status reducescatter(char* data, const std::vector<size_t>& counts, DType dtype, Op op,
                               const Patience& patience) = 0;
  // In place: the own part is at its offset already. `bytes` of each member.
  virtual Status allgather(char* data, const std::vector<size_t>& bytes, const Patience& patience) = 0;
  virtual Status broadcast(char* data, size_t bytes, int root, const Patience& patience) = 0;
  // Parts lie one after another in index order; the own part is copied, too.
  virtual Status alltoall(const char* in, const std::vector<size_t>& send, char* out,
                          const std::vector<size_t>& receive, const Patience& patience) = 0;

  // Called again and again while the group waits for its members: a library that moves bytes only while it is asked may
  // still have some of an operation that is done here, and others wait for them.
  virtual void keep_going() {}
  // Up to so many bytes an allreduce takes the way for small ones; transports that choose by themselves do not listen. Only
  // between operations, and the same on all members; any thread.
  virtual void set_switch_bytes(size_t) {}
  virtual void stop() = 0;  // ends a wait with Status::stopped; any thread
  virtual int culprit() const = 0;      // member, after peer_lost, timeout, system_error
  virtual int errno_value() const = 0;
};

}  // namespace hvd
