// An operation of a group. The fields mirror TransportOperation in src/transport/transport.ts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../reduce/reduce.h"

namespace hvd {

// The numbers are those of src/transport/native/codes.ts.
enum class Kind : uint8_t { allreduce = 0, reducescatter = 1, allgather = 2, broadcast = 3, alltoall = 4, barrier = 5 };

enum class Status : int {
  done = 0,
  mismatch = 1,      // the members' fingerprints differ; nothing was touched
  stalled = 2,       // still waiting for members to arrive; call again to wait on
  peer_lost = 3,     // the culprit's process died
  peer_left = 4,     // the culprit has shut down
  failed = 5,        // the job has failed; the control block says why
  timeout = 6,       // the culprit did not arrive before the deadline
  stopped = 7,       // this process is closing the group
  system_error = 8,  // errno_value() says which
  no_memory = 9,     // the result could not be allocated
  no_thread = 10,    // the thread that should run it could not be started; the others have seen nothing of it
};

struct Buffer {
  const char* in;
  char* out;
  size_t bytes;
};

struct Operation {
  Kind kind = Kind::barrier;
  DType dtype = DType::uint8;
  Op op = Op::sum;
  int root = 0;
  uint64_t fingerprint = 0;
  double prescale = 1;
  double postscale = 1;
  // Allreduce and reducescatter: the buffers are float32 and are converted to `dtype`, float16 or bfloat16, while they are
  // copied, and back. All sizes and offsets, Buffer::bytes too, count the bytes that travel: half as many.
  bool narrows = false;
  // allreduce: any number; the others: one (barrier: none). `out` of allgather and alltoall is `result`.
  std::vector<Buffer> buffers;
  // alltoall: bytes for each member; reducescatter: elements of each member.
  std::vector<uint64_t> counts;
  // The next round of this group begins before any member changes what the others read in this one: no member has to wait
  // at the end until the others have read it.
  bool is_followed = false;

  // Results of allgather and alltoall. `allocate` is called once, when all sizes are known.
  char* (*allocate)(void* context, size_t bytes) = nullptr;
  void* allocate_context = nullptr;
  char* result = nullptr;
  size_t result_bytes = 0;
  std::vector<uint64_t> received;  // bytes from each member
  // When `received` is complete. False: no memory.
  bool allocate_result() {
    result_bytes = 0;
    for (uint64_t bytes : received) result_bytes += bytes;
    result = allocate(allocate_context, result_bytes);
    return result != nullptr;
  }

  // Bytes in the buffers per byte that travels.
  size_t width() const { return narrows ? 2 : 1; }
  // Whether the bytes in the buffers travel unchanged.
  bool travels_as_it_is() const { return prescale == 1.0 && !narrows; }
  size_t total_bytes() const {
    size_t total = 0;
    for (const Buffer& buffer : buffers) total += buffer.bytes;
    return total;
  }
};

// How a thread waits: first it spins `spins` times, then it yields for `yield_ns`, then it sleeps.
// The main thread spins a little if there is a core for every rank; nothing else ever spins (measured:
// spinning with more threads than cores costs milliseconds per operation).
struct Patience {
  int spins;
  int64_t yield_ns;
  int64_t timeout_ns;  // from the first sleep
  int64_t stall_ns;    // 0: never return `stalled`
  bool may_move = false;  // this thread may move its rank to another core; see NOTE [Crowded cores]
};

}  // namespace hvd
