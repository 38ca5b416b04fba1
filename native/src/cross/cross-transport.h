// A cross transport moves the bytes of operations that the members of a CrossGroup have agreed on: over sockets (tcp) or
// with a library (mpi, gloo). Members are numbered as in the group. All calls are collective, on one thread at a time; each
// blocks until it is done, has failed or is past the deadline (Patience), and checks Control::failed() at least every
// millisecond while it waits. After any status but `done` it cannot be used any more. All members get the same bits.
#pragma once

#include <cstddef>
#include <vector>

#include "../group/operation.h"

namespace hvd {

class CrossTransport {
 public:
  virtual ~CrossTransport() = default;

  // In place.
  virtual Status allreduce(char* data, size_t count, DType dtype, Op op, const Patience& patience) = 0;
  // In place: afterwards this member's part is at its offset; the rest is undefined. `counts`: elements of each member.
  virtual Status reducescatter(char* data, const std::vector<size_t>& counts, DType dtype, Op op,
                               const Patience& patience) = 0;
  // In place: this member's part is at its offset already. `bytes` of each member.
  virtual Status allgather(char* data, const std::vector<size_t>& bytes, const Patience& patience) = 0;
  virtual Status broadcast(char* data, size_t bytes, int root, const Patience& patience) = 0;
  // Parts lie one after another in index order; this member's part is copied, too.
  virtual Status alltoall(const char* in, const std::vector<size_t>& send, char* out,
                          const std::vector<size_t>& receive, const Patience& patience) = 0;

  // Called repeatedly while the group waits for its members: a library that moves bytes only during calls may still hold
  // some of an operation that is done here, and other members wait for them.
  virtual void keep_going() {}
  // Up to how many bytes an allreduce uses the algorithm for small tensors; libraries that choose by themselves ignore it.
  // Only between operations, and the same on all members; any thread.
  virtual void set_switch_bytes(size_t) {}
  virtual void stop() = 0;  // ends a wait with Status::stopped; any thread
  virtual int culprit() const = 0;      // member, after peer_lost, timeout, system_error
  virtual int errno_value() const = 0;
};

}  // namespace hvd
