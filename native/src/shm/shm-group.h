// A group whose members share memory. The files: shm-group.cc (posts, waiting, choice of the algorithm), allreduce.cc,
// exchange.cc (allgather, broadcast, alltoall, reducescatter), calibration.cc, peer-memory.cc.
#pragma once

#include <sched.h>

#include <atomic>
#include <vector>

#include "../group/control.h"
#include "../group/group.h"
#include "arena.h"
#include "layout.h"
#include "peer-memory.h"

namespace hvd {

class ShmGroup final : public Group {
 public:
  static size_t segment_bytes(int members) { return sizeof(Member) * static_cast<size_t>(members); }

  // `ranks[i]` is the global rank of member i. `fd` is the segment, zeroed, of segment_bytes(size).
  ShmGroup(int fd, std::vector<int> ranks, int index, Control& control, Arena* arena);
  ~ShmGroup() override;

  void start(const Operation& operation) override;
  Status arrive(const Patience& patience) override;
  Status execute(Operation& operation, const Patience& patience) override;
  Status check_idle() override;
  bool anyone_started() override;
  bool everyone_arrived() override;
  void nap(int64_t timeout_ns) override;
  std::vector<int> missing() const override;
  bool probe_peer_memory(bool allowed) override;
  Status calibrate(bool wanted, const Patience& patience) override;
  int withdraw(int64_t limit_ns) override;

  // For tests.
  size_t copies_from() const { return copy_from_; }
  size_t gathers_from() const { return gather_from_; }

  // Outside of rounds: bits that this member publishes to the others of this host, and those of another member.
  void note(int word, uint64_t bits) { member(index_).notes[word].store(bits, std::memory_order_relaxed); }
  uint64_t noted(int i, int word) const { return member(i).notes[word].load(std::memory_order_relaxed); }

 private:
  // Counted by the thread that uses the group; missing() and nap() read it on others.
  class Counter {
   public:
    operator uint64_t() const { return value_.load(std::memory_order_relaxed); }
    void operator++(int) { value_.store(*this + 1, std::memory_order_relaxed); }

   private:
    std::atomic<uint64_t> value_{1};
  };

  Member& member(int i) const { return members_[i]; }
  Post& post(int i) const { return members_[i].posts[round_ & 1]; }
  uint64_t meta(int i) const { return post(i).header.words[1]; }
  size_t posted_bytes(int i) const { return meta(i) >> post_flag::bits; }
  bool flag(int i, uint64_t bit) const { return (meta(i) & bit) != 0; }
  bool everyone(uint64_t bit) const;
  bool anyone(uint64_t bit) const;
  char* slot(int i, uint64_t chunk) const { return members_[i].slots[chunk % slot_count]; }

  void write_inline(const Operation& operation, size_t bytes, Post& post);
  Status read_inline(int i, char* to, size_t bytes, const Patience& patience);
  void ring();
  void publish(std::atomic<uint64_t>& counter, uint64_t value) {
    counter.store(value, std::memory_order_release);
    ring();
  }
  Status finish(const Patience& patience);  // after it no member touches the memory of another

  template <class Reached>
  Status wait_for(int i, const Patience& patience, bool may_stall, const Reached& reached);
  template <class Reached>
  Status wait_for_all(const Patience& patience, bool may_stall, const Reached& reached) {
    for (int i = 0; i < size_; i++) {
      if (i == index_) continue;
      if (Status status = wait_for(i, patience, may_stall, reached); status != Status::done) return status;
    }
    return Status::done;
  }
  int core_of(int i) const;
  void leave_crowded_core();
  void return_to_core(int core, int i);
  Status check_waiting(int i, const Patience& patience, bool may_stall);
  Status wait_for_chunk(int i, uint64_t chunk, const Patience& patience);

  // allreduce.cc
  Status allreduce(Operation&, const Patience&);
  Status allreduce_inline(Operation&, size_t bytes, const Patience&);
  Status allreduce_direct(Operation&, size_t bytes, const Patience&);
  Status allreduce_by_parts(Operation&, size_t bytes, const Patience&);
  Status allreduce_in_place_of_peers(Operation&, size_t bytes, const Patience&);
  void stage_parts(const Operation&, size_t offset, size_t bytes, char* to);
  bool reduces_by_parts(size_t bytes) const;

  // calibration.cc
  struct Comparison {
    float direct_us = 0, staged_us = 0;
    double spent_us = 0;  // by all comparisons
  };
  Status agree(Op op, float& value, const Patience&);
  Status compare_ways(Kind, std::vector<float>& tensor, size_t bytes, size_t& threshold, Comparison&, const Patience&);

  // exchange.cc
  Status allgather(Operation&, const Patience&);
  Status broadcast(Operation&, const Patience&);
  Status alltoall(Operation&, const Patience&);
  Status reducescatter(Operation&, const Patience&);
  bool pulls(size_t from = 0) const;
  Status pull(int i, uint64_t address, char* to, size_t bytes);
  template <class Fill, class Consume>
  Status stream(size_t chunks, const Patience& patience, const Fill& fill, const Consume& consume);

  // An address for the others. `grows`: is set if it is in the arena, but not where all others have mapped it.
  uint64_t address(const void* pointer, size_t bytes, bool& grows);
  bool everyone_reaches(uint64_t end);
  void reach_peers();
  TableEntry entry(int i, size_t buffer, size_t buffers) const;
  Status system_failure(int i, int error);
  Status turned_away(int i);  // member i must not be written to any more

  Member* members_ = nullptr;
  std::vector<int> ranks_;
  Control& control_;
  Arena* arena_;
  PeerMemory peers_;
  bool can_copy_ = false;
  // From this size on ordinary memory is copied directly rather than staged, in an allreduce and in an allgather; equal on all
  // members.
  size_t copy_from_;
  size_t gather_from_ = 0;
  bool is_exposed_ = false;  // others may be writing into the buffers of an operation of ours
  uint64_t reach_ = 0;  // how much of our arena all others have mapped, when this was last looked up
  std::vector<uint64_t> tried_to_reach_;  // by member
  uint64_t probe_ = probe_value;

  Counter round_;  // the round to come, or under way
  uint64_t chunk_ = 0;  // number of the next operation's first chunk; equal on all members
  int64_t waiting_since_ = 0;
  int64_t next_stall_ = 0;
  int64_t next_move_ = 0;
  int64_t move_pause_ = 0;
  int64_t moved_at_ = 0;
  std::vector<const void*> sources_;
  std::vector<char> scratch_;
};

template <class Reached>
Status ShmGroup::wait_for(int i, const Patience& patience, bool may_stall, const Reached& reached) {
  if (reached(i)) return Status::done;
  for (int s = 0; s < patience.spins; s++) {
    relax();
    if (reached(i)) return Status::done;
  }
  if (patience.may_move) leave_crowded_core();
  for (int64_t until = monotonic_ns() + patience.yield_ns; monotonic_ns() < until;) {
    for (int y = 0; y < 16; y++) {
      sched_yield();
      if (reached(i)) return Status::done;
    }
  }
  for (;;) {
    Status status = check_waiting(i, patience, may_stall);
    if (status != Status::done) return reached(i) ? Status::done : status;  // it may have posted just before it died
    // A ring between this check and the sleep changes the doorbell and ends the sleep at once. If the ringing side misses
    // `asleep` (it has no fence, which would cost every operation 0.1 µs), the short timeout makes up for it.
    Member& me = member(index_);
    uint32_t heard = me.doorbell.load(std::memory_order_acquire);
    me.asleep.store(1, std::memory_order_seq_cst);
    const int core = sched_getcpu();
    if (!reached(i)) futex_wait(me.doorbell, heard, 1'000'000);
    me.asleep.store(0, std::memory_order_relaxed);
    if (patience.may_move && patience.spins > 0) return_to_core(core, i);
    if (reached(i)) return Status::done;
  }
}

}  // namespace hvd
