#include "shm-group.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace hvd {

namespace {
Member* map_segment(int fd, size_t size) {
  void* memory = mmap(nullptr, ShmGroup::segment_bytes(static_cast<int>(size)), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap of a group's segment");
  return static_cast<Member*>(memory);
}
}  // namespace

ShmGroup::ShmGroup(int fd, std::vector<int> ranks, int index, Control& control, Arena* arena)
    : Group(static_cast<int>(ranks.size()), index),
      members_(map_segment(fd, ranks.size())),
      ranks_(std::move(ranks)),
      control_(control),
      arena_(arena),
      peers_(members_, size_, index_, arena ? &arena->peers() : nullptr),
      copy_from_(copy_from_bytes(size_)),
      tried_to_reach_(static_cast<size_t>(size_)),
      sources_(static_cast<size_t>(size_)),
      scratch_(std::max<size_t>(inline_bytes * static_cast<size_t>(size_ + 1), 64)) {
  Member& me = member(index_);
  me.pid = getpid();
  me.arena_fd = arena ? arena->fd() : -1;
  me.arena_id = arena ? arena->id() : 0;
  me.probe_address = reinterpret_cast<uint64_t>(&probe_);
}

ShmGroup::~ShmGroup() { munmap(members_, segment_bytes(size_)); }

int ShmGroup::withdraw(int64_t limit_ns) {
  member(index_).gone.store(1, std::memory_order_seq_cst);
  const bool must_wait = is_exposed_ && !control_.is_fenced();
  const int rank = must_wait ? control_.wait_for_hands_off({0, limit_ns}) : -1;
  is_exposed_ = rank >= 0;
  return rank;
}

bool ShmGroup::probe_peer_memory(bool allowed) {
  can_copy_ = allowed && size_ > 1 && peers_.probe();
  return can_copy_;
}

uint64_t ShmGroup::address(const void* pointer, size_t bytes, bool& grows) {
  const uint64_t offset = arena_ ? arena_->offset_of(pointer, bytes) : Arena::outside;
  if (offset != Arena::outside) {
    if (everyone_reaches(offset + bytes)) return offset | arena_bit;
    grows = true;
  }
  return reinterpret_cast<uint64_t>(pointer);
}

bool ShmGroup::everyone_reaches(uint64_t end) {
  if (end <= reach_) return true;
  if (index_ >= max_reached) return false;
  uint64_t least = ~uint64_t{0};
  for (int i = 0; i < size_; i++)
    if (i != index_) least = std::min(least, member(i).reached[index_].load(std::memory_order_acquire));
  reach_ = least;
  return end <= reach_;
}

// Maps the arenas of the members that have asked for it in this round. A failure is not an error: their memory is copied.
void ShmGroup::reach_peers() {
  for (int i = 0; i < std::min(size_, max_reached); i++) {
    if (i == index_ || !flag(i, post_flag::grows)) continue;
    const uint64_t end = member(i).arena_end.load(std::memory_order_acquire);
    uint64_t& tried = tried_to_reach_[static_cast<size_t>(i)];
    if (end <= tried) continue;
    tried = end;
    if (peers_.reach(i, end)) member(index_).reached[i].store(end, std::memory_order_release);
  }
}

TableEntry ShmGroup::entry(int i, size_t buffer, size_t buffers) const {
  if (buffers == 1) return {post(i).header.words[2], post(i).header.words[3]};
  return member(i).table[round_ & 1][buffer];
}

void ShmGroup::ring() {
  for (int i = 0; i < size_; i++) {
    if (i == index_) continue;
    Member& peer = member(i);
    if (peer.asleep.load(std::memory_order_relaxed)) {
      peer.doorbell.fetch_add(1, std::memory_order_release);
      futex_wake(peer.doorbell);
    }
  }
}

void ShmGroup::start(const Operation& operation) {
  waiting_since_ = 0;
  Member& me = member(index_);
  Post& mine = post(index_);
  const size_t buffers = operation.buffers.size();
  size_t bytes = operation.kind == Kind::broadcast && operation.root != index_ ? 0 : operation.total_bytes();
  uint64_t flags = (can_copy_ ? post_flag::can_copy : 0) | (operation.narrows ? post_flag::narrows : 0) |
                   static_cast<uint64_t>(sched_getcpu() & 0xffff) << post_flag::cpu_shift;

  if (operation.kind == Kind::alltoall)
    std::memcpy(me.table[round_ & 1], operation.counts.data(), operation.counts.size() * sizeof(uint64_t));
  const bool is_inline = bytes <= inline_bytes;
  if (is_inline) {
    flags |= post_flag::is_inline;
  } else {
    if (buffers <= table_entries) {
      bool in_arena = true, grows = false;
      for (size_t b = 0; b < buffers; b++) {
        const Buffer& buffer = operation.buffers[b];
        const size_t in_memory = buffer.bytes * operation.width();
        TableEntry entry{address(buffer.in, in_memory, grows), address(buffer.out, in_memory, grows)};
        in_arena = in_arena && (entry.in & arena_bit) && (operation.kind != Kind::allreduce || (entry.out & arena_bit));
        if (buffers == 1) {
          mine.header.words[2] = entry.in;
          mine.header.words[3] = entry.out;
        } else {
          me.table[round_ & 1][b] = entry;
        }
      }
      flags |= post_flag::addressed | (in_arena ? post_flag::all_in_arena : 0);
      is_exposed_ = operation.kind == Kind::allreduce;
      if (grows) {
        flags |= post_flag::grows;
        me.arena_end.store(arena_->used_end(), std::memory_order_release);
      }
    }
    // Stage the first chunk unless the data will be copied directly from memory to memory.
    bool stages = operation.kind == Kind::allreduce && !(flags & post_flag::all_in_arena) &&
                  !(can_copy_ && bytes >= copy_from_ && (flags & post_flag::addressed));
    if (stages) {
      const size_t first = std::min(bytes, slot_bytes);
      if (reduces_by_parts(bytes))
        stage_parts(operation, 0, first, slot(index_, chunk_));
      else
        pack(operation, 0, first, slot(index_, chunk_));
      flags |= post_flag::staged;
    }
  }
  mine.header.words[0] = operation.fingerprint;
  mine.header.words[1] = (static_cast<uint64_t>(bytes) << post_flag::bits) | flags;
  if (is_inline && bytes > 0)
    write_inline(operation, bytes, mine);
  else
    mine.header.round.store(round_, std::memory_order_release);
  ring();
}

void ShmGroup::write_inline(const Operation& operation, size_t bytes, Post& mine) {
  const char* from = operation.buffers[0].in;
  if (operation.buffers.size() != 1 || !operation.travels_as_it_is()) {
    char* packed = scratch_.data() + inline_bytes * static_cast<size_t>(size_);
    pack(operation, 0, bytes, packed);
    from = packed;
  }
  size_t first = std::min(bytes, header_payload_bytes);
  std::memcpy(&mine.header.words[2], from, first);
  mine.header.round.store(round_, std::memory_order_release);
  Line* line = mine.payload;
  size_t at = first;
  for (; at + line_payload_bytes <= bytes; at += line_payload_bytes, line++) {  // the compiler inlines a copy of constant length
    std::memcpy(line->words, from + at, line_payload_bytes);
    line->round.store(round_, std::memory_order_release);
  }
  if (at < bytes) {
    std::memcpy(line->words, from + at, bytes - at);
    line->round.store(round_, std::memory_order_release);
  }
}

Status ShmGroup::read_inline(int i, char* to, size_t bytes, const Patience& patience) {
  Post& theirs = post(i);
  size_t first = std::min(bytes, header_payload_bytes);
  std::memcpy(to, &theirs.header.words[2], first);
  const Line* line = theirs.payload;
  auto arrived = [&](int) { return line->round.load(std::memory_order_acquire) == round_; };
  size_t at = first;
  for (; at + line_payload_bytes <= bytes; at += line_payload_bytes, line++) {
    if (Status status = wait_for(i, patience, false, arrived); status != Status::done) return status;
    std::memcpy(to + at, line->words, line_payload_bytes);
  }
  if (at < bytes) {
    if (Status status = wait_for(i, patience, false, arrived); status != Status::done) return status;
    std::memcpy(to + at, line->words, bytes - at);
  }
  return Status::done;
}

Status ShmGroup::arrive(const Patience& patience) {
  Status status = wait_for_all(patience, true, [&](int i) {
    return post(i).header.round.load(std::memory_order_acquire) == round_;
  });
  if (status != Status::done) return status;
  // A late member may find posts of members that have given up since; for them the operation has failed.
  if (control_.failed()) return Status::failed;
  const uint64_t fingerprint = post(index_).header.words[0];
  for (int i = 0; i < size_; i++) {
    if (post(i).header.words[0] == fingerprint) continue;
    round_++;
    is_exposed_ = false;
    chunk_++;  // a first chunk may have been staged; all members skip its number
    return Status::mismatch;
  }
  return Status::done;
}

Status ShmGroup::execute(Operation& operation, const Patience& patience) {
  Status status = Status::done;
  if (operation.kind != Kind::allreduce) mark(operation.kind == Kind::reducescatter ? Stage::reduce : Stage::copy);
  switch (operation.kind) {
    case Kind::allreduce: status = allreduce(operation, patience); break;
    case Kind::reducescatter: status = reducescatter(operation, patience); break;
    case Kind::allgather: status = allgather(operation, patience); break;
    case Kind::broadcast: status = broadcast(operation, patience); break;
    case Kind::alltoall: status = alltoall(operation, patience); break;
    case Kind::barrier: break;
  }
  if (status != Status::done) return status;  // after a failure missing() still reports this round
  const bool all_inline = operation.kind == Kind::allreduce && flag(index_, post_flag::is_inline);
  if (!all_inline && anyone(post_flag::grows)) reach_peers();
  round_++;
  is_exposed_ = false;
  return status;
}

Status ShmGroup::finish(const Patience& patience) {
  mark(Stage::wait);
  publish(member(index_).finished, round_);
  return wait_for_all(patience, false, [&](int i) {
    return member(i).finished.load(std::memory_order_acquire) >= round_;
  });
}

bool ShmGroup::everyone(uint64_t bit) const {
  for (int i = 0; i < size_; i++)
    if (!flag(i, bit)) return false;
  return true;
}

bool ShmGroup::anyone(uint64_t bit) const {
  for (int i = 0; i < size_; i++)
    if (flag(i, bit)) return true;
  return false;
}

bool ShmGroup::anyone_started() {
  for (int i = 0; i < size_; i++)
    if (i != index_ && post(i).header.round.load(std::memory_order_acquire) == round_) return true;
  return false;
}

bool ShmGroup::everyone_arrived() {
  for (int i = 0; i < size_; i++)
    if (post(i).header.round.load(std::memory_order_acquire) != round_) return false;
  return true;
}

std::vector<int> ShmGroup::missing() const {
  std::vector<int> list;
  for (int i = 0; i < size_; i++)
    if (post(i).header.round.load(std::memory_order_acquire) < round_) list.push_back(i);
  return list;
}

void ShmGroup::nap(int64_t timeout_ns) {
  Member& me = member(index_);
  uint32_t heard = me.doorbell.load(std::memory_order_acquire);
  me.asleep.store(1, std::memory_order_seq_cst);
  if (!anyone_started()) futex_wait(me.doorbell, heard, timeout_ns);
  me.asleep.store(0, std::memory_order_relaxed);
}

// NOTE [Crowded cores]. Ranks may be distributed unevenly over the cores: another process used a core for a moment, or a
// sleeping rank was woken on the core of the rank that woke it (as virtual machines do, where an idle core looks
// unavailable). A rank that waits by yielding looks busy and its data looks hot, so the scheduler leaves it there for long
// (measured: two ranks on one of two cores train at half speed for half a minute; three on one of four cores take 1.5 times
// as long). So a rank that was moved onto a peer's core while it slept moves back, and a rank that waits on a core with at
// least two more ranks than another core has moves there, the highest rank first; less and less often if it does not help.
int ShmGroup::core_of(int i) const {
  if (i == index_) return sched_getcpu();
  uint64_t posted = member(i).posts[(round_ - 1) & 1].header.words[1];  // where it was in the last round
  return static_cast<int>(posted >> post_flag::cpu_shift & 0xffff);
}

namespace {
// Moves to `core`; the scheduler may move the thread again at once.
void move_to(int core, const cpu_set_t& allowed) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}
}  // namespace

void ShmGroup::leave_crowded_core() {
  const int64_t now = monotonic_ns();
  if (now < next_move_) return;
  next_move_ = now + 1'000'000;
  const int core = sched_getcpu();
  if (core < 0 || core >= CPU_SETSIZE) return;
  uint16_t ranks_on[CPU_SETSIZE] = {};
  for (int i = 0; i < size_; i++) {
    const int other = core_of(i);
    if (other == core && i > index_) return;  // that one moves
    if (other < CPU_SETSIZE) ranks_on[other]++;
  }
  cpu_set_t allowed;
  if (ranks_on[core] < 2 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int emptiest = core;
  for (int other = 0; other < CPU_SETSIZE; other++)
    if (CPU_ISSET(other, &allowed) && ranks_on[other] < ranks_on[emptiest]) emptiest = other;
  if (ranks_on[emptiest] + 1 >= ranks_on[core]) return;
  constexpr int64_t shortest_pause = 1'000'000, longest_pause = 100'000'000;
  const bool has_helped = now - moved_at_ > 4 * move_pause_;
  move_pause_ = has_helped ? shortest_pause : std::min(move_pause_ * 2, longest_pause);
  moved_at_ = now;
  next_move_ = now + move_pause_;
  move_to(emptiest, allowed);
}

void ShmGroup::return_to_core(int core, int i) {
  if (core < 0 || core == sched_getcpu() || core_of(i) != sched_getcpu()) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_ISSET(core, &allowed)) move_to(core, allowed);
}

Status ShmGroup::check_idle() {
  return stopping() ? Status::stopped : control_.check(ranks_, index_, culprit_);
}

Status ShmGroup::check_waiting(int i, const Patience& patience, bool may_stall) {
  // Any loss ends the wait, not only that of `i`: no member that is still needed can finish without all members. A member
  // that has finished may be gone, but only after all have published everything, and then `i` is reached.
  if (Status status = check_idle(); status != Status::done) return status;
  int64_t now = monotonic_ns();
  if (waiting_since_ == 0) {
    waiting_since_ = now;
    next_stall_ = now + patience.stall_ns;
  }
  if (now - waiting_since_ >= patience.timeout_ns) {
    culprit_ = i;
    return Status::timeout;
  }
  if (may_stall && patience.stall_ns > 0 && now >= next_stall_) {
    next_stall_ = now + patience.stall_ns;
    return Status::stalled;
  }
  return Status::done;
}

Status ShmGroup::system_failure(int i, int error) {
  // A peer that is dying cannot be copied from: that is a loss, not a failure of the call.
  for (int64_t until = monotonic_ns() + 100'000'000; monotonic_ns() < until;) {
    if (control_.presence(ranks_[static_cast<size_t>(i)]) == Control::Presence::dead) {
      culprit_ = i;
      return Status::peer_lost;
    }
    usleep(500);
  }
  errno_ = error;
  culprit_ = i;
  return Status::system_error;
}

// Whoever closed the job has recorded why before; a member that is gone has left, or has removed the process set.
Status ShmGroup::turned_away(int i) {
  if (Status status = check_idle(); status != Status::done) return status;
  if (control_.closed()) return Status::failed;
  culprit_ = i;
  return Status::peer_left;
}

Status ShmGroup::wait_for_chunk(int i, uint64_t chunk, const Patience& patience) {
  if (chunk == chunk_ && flag(i, post_flag::staged)) return Status::done;
  return wait_for(i, patience, false,
                  [&](int m) { return member(m).produced.load(std::memory_order_acquire) > chunk; });
}

}  // namespace hvd
