// A group: the members of one process set, which go through rounds together (see src/transport/transport.ts). One thread at
// a time may use it; functions that other threads may call are marked. Implementations: ShmGroup (members on this host),
// CrossGroup (members connected by sockets), HierarchicalGroup (both).
#pragma once

#include <atomic>
#include <new>
#include <vector>

#include "futex.h"
#include "operation.h"
#include "trace.h"

namespace hvd {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Group {
 public:
  Group(int size, int index) : size_(size), index_(index) {}
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // A round in three steps. start() posts; arrive() waits for the others and compares; execute() moves the
  // data. Any status but `stalled` from arrive() ends the round.
  virtual void start(const Operation& operation) = 0;
  virtual Status arrive(const Patience& patience) = 0;
  virtual Status execute(Operation& operation, const Patience& patience) = 0;

  // start(), recorded in the trace. If there is no memory for it, resume() says so.
  void begin(const Operation& operation) {
    mark(Stage::posted);
    try {
      start(operation);
      has_begun_ = true;
    } catch (const std::bad_alloc&) {
      has_begun_ = false;
    }
  }

  // All three; after `stalled` call resume(). Running out of memory is a status: callers expect no exceptions.
  Status run(Operation& operation, const Patience& patience) {
    begin(operation);
    return resume(operation, patience);
  }
  Status resume(Operation& operation, const Patience& patience) {
    if (!has_begun_) return Status::no_memory;
    try {
      Status status = arrive(patience);
      if (status != Status::done) return status;
      mark(Stage::agreed);
      status = execute(operation, patience);
      mark(Stage::over);
      return status;
    } catch (const std::bad_alloc&) {
      return Status::no_memory;
    }
  }

  // Whether start() keeps where results go. Then that may not change before the end of the round.
  virtual bool keeps_outputs() const { return false; }
  virtual Status check_idle() = 0;              // anything but `done` ends the wait for another member to start
  virtual bool anyone_started() = 0;            // has another member posted the round to come?
  virtual bool everyone_arrived() = 0;          // have all members posted the round begun?
  virtual void nap(int64_t timeout_ns) = 0;     // until a member posts or the timeout, or less; any thread
  virtual std::vector<int> missing() const = 0; // members that have not posted the current round; any thread

  // After a first barrier: finds out whether this member can copy from and to the others' memory. True if so.
  virtual bool probe_peer_memory(bool) { return false; }
  // After that: finds out which ways are faster on this machine. All members of this host call it, whether they
  // want it or not. It blocks.
  virtual Status calibrate(bool, const Patience&) { return Status::done; }
  // Up to how many bytes an allreduce between hosts uses the algorithm for small tensors. Only while nothing is in flight,
  // and the same on all members before the next operation; any thread.
  virtual void set_switch_bytes(size_t) {}
  // Before the group closes: waits until no member writes into the memory of this one any more. Returns the rank of one that
  // may still do so after that time, -1 if there is none.
  virtual int withdraw(int64_t) { return -1; }
  // Ends waits with Status::stopped; any thread.
  virtual void stop() { stop_.store(true, std::memory_order_release); }

  // Records the stages of operations from now on; nullptr: no more. For the thread that uses the group.
  void set_trace(Trace* trace) { trace_ = trace; }

  int size() const { return size_; }
  int index() const { return index_; }
  int culprit() const { return culprit_; }       // member, after peer_lost, peer_left, timeout, system_error
  int errno_value() const { return errno_; }     // after system_error; after peer_lost what its connection said, or 0

 protected:
  void mark(Stage stage) {
    if (__builtin_expect(trace_ != nullptr, 0)) trace_->add(stage, monotonic_ns());
  }
  bool stopping() const { return stop_.load(std::memory_order_acquire); }

  const int size_;
  const int index_;
  int culprit_ = -1;
  int errno_ = 0;

 private:
  Trace* trace_ = nullptr;
  bool has_begun_ = true;
  std::atomic<bool> stop_{false};
};

// Visits the pieces of a list of buffers that make up bytes [offset, offset + bytes) of their concatenation:
// `visit(buffer index, offset in it, offset in the range, bytes)`.
template <class Visit>
void for_each_piece(const std::vector<Buffer>& buffers, size_t offset, size_t bytes, const Visit& visit) {
  size_t start = 0, seen = 0;
  for (size_t b = 0; b < buffers.size() && seen < bytes; b++) {
    size_t end = start + buffers[b].bytes;
    if (offset + seen < end) {
      size_t within = offset + seen - start;
      size_t piece = buffers[b].bytes - within < bytes - seen ? buffers[b].bytes - within : bytes - seen;
      visit(b, within, seen, piece);
      seen += piece;
    }
    start = end;
  }
}

// Copies bytes [offset, offset + bytes) of what travels from the buffers' inputs, converted and prescaled as requested.
inline void pack(const Operation& operation, size_t offset, size_t bytes, char* to) {
  const size_t element = element_bytes(operation.dtype);
  for_each_piece(operation.buffers, offset, bytes, [&](size_t b, size_t within, size_t seen, size_t piece) {
    const char* from = operation.buffers[b].in + within;
    if (operation.narrows) {
      narrow(to + seen, reinterpret_cast<const float*>(from + within), piece / element, operation.dtype);
      from = to + seen;
    }
    if (operation.prescale != 1.0)
      scale(to + seen, from, piece / element, operation.dtype, operation.prescale);
    else if (!operation.narrows)
      __builtin_memcpy(to + seen, from, piece);
  });
}

// Copies bytes of the dtype at `from` to a buffer's output, starting at `within`.
inline void put(const Operation& operation, size_t b, size_t within, const char* from, size_t bytes) {
  char* to = operation.buffers[b].out + within;
  if (operation.narrows)
    widen(reinterpret_cast<float*>(to + within), from, bytes / element_bytes(operation.dtype), operation.dtype);
  else if (to != from && bytes > 0)
    __builtin_memmove(to, from, bytes);
}

// Copies from `from` to bytes [offset, offset + bytes) of the buffers' outputs.
inline void unpack(const Operation& operation, size_t offset, size_t bytes, const char* from) {
  for_each_piece(operation.buffers, offset, bytes, [&](size_t b, size_t within, size_t seen, size_t piece) {
    put(operation, b, within, from + seen, piece);
  });
}

// Reduces the sources, which are of the dtype, into a buffer's output, starting at `within`.
inline void reduce_to(const Operation& operation, size_t b, size_t within, const void* const* sources, int count, size_t bytes) {
  const size_t elements = bytes / element_bytes(operation.dtype);
  char* to = operation.buffers[b].out + within;
  if (operation.narrows)
    reduce_widening(reinterpret_cast<float*>(to + within), sources, count, elements, operation.dtype, operation.op, operation.postscale);
  else
    reduce(to, sources, count, elements, operation.dtype, operation.op, operation.postscale);
}

}  // namespace hvd
