// Allgather, broadcast, alltoall and reducescatter. Each has three ways: small data is in the posts (one step); it is
// pulled directly from the members' memory (one step and one at the end, each byte copied once); or it streams through the
// slots (one step per chunk, each byte copied twice). n = bytes of a member's input, N = members.
#include <algorithm>
#include <cstring>

#include "shm-group.h"

namespace hvd {

// All members come to the same answer: they read the same posts. `from`: the size from which on it is faster.
bool ShmGroup::pulls(size_t from) const {
  if (anyone(post_flag::narrows)) return false;  // every reader would have to convert
  bool in_arena = true;
  size_t longest = 0;
  for (int i = 0; i < size_; i++) {
    in_arena = in_arena && (flag(i, post_flag::is_inline) || flag(i, post_flag::all_in_arena));
    longest = std::max(longest, posted_bytes(i));
  }
  return in_arena || (longest >= from && everyone(post_flag::can_copy));
}

Status ShmGroup::pull(int i, uint64_t address, char* to, size_t bytes) {
  int error = peers_.read(i, address, to, bytes);
  return error ? system_failure(i, error) : Status::done;
}

// Streams `chunks` chunks through the slots in lockstep: `fill(k, slot)` writes ours, `consume(k)` reads those of the
// others. One step per chunk.
template <class Fill, class Consume>
Status ShmGroup::stream(size_t chunks, const Patience& patience, const Fill& fill, const Consume& consume) {
  for (size_t k = 0; k < chunks; k++) {
    fill(k, slot(index_, chunk_ + k));
    publish(member(index_).produced, chunk_ + k + 1);
    for (int i = 0; i < size_; i++)
      if (i != index_)
        if (Status status = wait_for_chunk(i, chunk_ + k, patience); status != Status::done) return status;
    consume(k);
  }
  chunk_ += chunks;
  return Status::done;
}

// Each member reads n·(N-1) bytes.
Status ShmGroup::allgather(Operation& operation, const Patience& patience) {
  operation.received.resize(static_cast<size_t>(size_));
  std::vector<size_t> offsets(static_cast<size_t>(size_));
  size_t longest = 0, total = 0;
  for (int i = 0; i < size_; i++) {
    size_t bytes = posted_bytes(i);
    operation.received[static_cast<size_t>(i)] = bytes;
    offsets[static_cast<size_t>(i)] = total;
    total += bytes;
    if (!flag(i, post_flag::is_inline)) longest = std::max(longest, bytes);
  }
  if (!operation.allocate_result()) return Status::no_memory;
  auto place = [&](int i) { return operation.result + offsets[static_cast<size_t>(i)]; };
  const Buffer& mine = operation.buffers[0];
  if (mine.bytes > 0) std::memcpy(place(index_), mine.in, mine.bytes);
  for (int i = 0; i < size_; i++)
    if (i != index_ && flag(i, post_flag::is_inline))
      if (Status status = read_inline(i, place(i), posted_bytes(i), patience); status != Status::done) return status;
  if (longest == 0) return Status::done;

  if (pulls(gather_from_)) {
    for (int n = 1; n < size_; n++) {  // every member starts with another one
      int i = (index_ + n) % size_;
      if (flag(i, post_flag::is_inline)) continue;
      if (Status status = pull(i, entry(i, 0, 1).in, place(i), posted_bytes(i)); status != Status::done) return status;
    }
    return operation.is_followed ? Status::done : finish(patience);
  }
  auto length = [&](int i, size_t k) -> size_t {
    size_t bytes = flag(i, post_flag::is_inline) ? 0 : posted_bytes(i);
    return k * slot_bytes < bytes ? std::min(slot_bytes, bytes - k * slot_bytes) : 0;
  };
  return stream(
      (longest + slot_bytes - 1) / slot_bytes, patience,
      [&](size_t k, char* to) {
        if (size_t bytes = length(index_, k)) std::memcpy(to, mine.in + k * slot_bytes, bytes);
      },
      [&](size_t k) {
        for (int i = 0; i < size_; i++)
          if (size_t bytes = i == index_ ? 0 : length(i, k))
            std::memcpy(place(i) + k * slot_bytes, slot(i, chunk_ + k), bytes);
      });
}

// Each member but the root reads n bytes.
Status ShmGroup::broadcast(Operation& operation, const Patience& patience) {
  const int root = operation.root;
  const Buffer& mine = operation.buffers[0];
  const size_t bytes = mine.bytes;
  if (bytes == 0) return Status::done;
  if (index_ == root && mine.out != mine.in) std::memmove(mine.out, mine.in, bytes);
  if (flag(root, post_flag::is_inline))
    return index_ == root ? Status::done : read_inline(root, mine.out, bytes, patience);
  if (pulls()) {
    if (index_ != root)
      if (Status status = pull(root, entry(root, 0, 1).in, mine.out, bytes); status != Status::done) return status;
    return operation.is_followed ? Status::done : finish(patience);
  }
  auto length = [&](size_t k) { return std::min(slot_bytes, bytes - k * slot_bytes); };
  return stream(
      (bytes + slot_bytes - 1) / slot_bytes, patience,
      [&](size_t k, char* to) {
        if (index_ == root) std::memcpy(to, mine.in + k * slot_bytes, length(k));
      },
      [&](size_t k) {
        if (index_ != root) std::memcpy(mine.out + k * slot_bytes, slot(root, chunk_ + k), length(k));
      });
}

// Each member reads the parts for it, about n·(N-1)/N bytes.
Status ShmGroup::alltoall(Operation& operation, const Patience& patience) {
  const size_t members = static_cast<size_t>(size_);
  auto sent = [&](int from, int to) {
    return reinterpret_cast<const uint64_t*>(member(from).table[round_ & 1])[to];
  };
  auto start_of = [&](int from, int to) {
    size_t start = 0;
    for (int i = 0; i < to; i++) start += sent(from, i);
    return start;
  };
  operation.received.resize(members);
  std::vector<size_t> offsets(members);
  size_t total = 0, longest = 0;
  for (int i = 0; i < size_; i++) {
    offsets[static_cast<size_t>(i)] = total;
    operation.received[static_cast<size_t>(i)] = sent(i, index_);
    total += sent(i, index_);
    if (!flag(i, post_flag::is_inline))
      for (int j = 0; j < size_; j++) longest = std::max<size_t>(longest, sent(i, j));
  }
  if (!operation.allocate_result()) return Status::no_memory;
  auto place = [&](int i) { return operation.result + offsets[static_cast<size_t>(i)]; };
  const char* mine = operation.buffers[0].in;
  if (size_t bytes = sent(index_, index_)) std::memcpy(place(index_), mine + start_of(index_, index_), bytes);
  for (int i = 0; i < size_; i++) {
    if (i == index_ || !flag(i, post_flag::is_inline) || sent(i, index_) == 0) continue;
    size_t start = start_of(i, index_), bytes = sent(i, index_);
    if (Status status = read_inline(i, scratch_.data(), start + bytes, patience); status != Status::done) return status;
    std::memcpy(place(i), scratch_.data() + start, bytes);
  }
  bool anyone_big = false;
  for (int i = 0; i < size_; i++) anyone_big = anyone_big || !flag(i, post_flag::is_inline);
  if (!anyone_big) return Status::done;

  if (pulls()) {
    for (int n = 1; n < size_; n++) {
      int i = (index_ + n) % size_;
      if (flag(i, post_flag::is_inline)) continue;
      Status status = pull(i, entry(i, 0, 1).in + start_of(i, index_), place(i), sent(i, index_));
      if (status != Status::done) return status;
    }
    return operation.is_followed ? Status::done : finish(patience);
  }
  const size_t region = slot_bytes / members & ~static_cast<size_t>(63);
  auto length = [&](int from, int to, size_t k) -> size_t {
    size_t bytes = flag(from, post_flag::is_inline) ? 0 : sent(from, to);
    return k * region < bytes ? std::min(region, bytes - k * region) : 0;
  };
  return stream(
      (longest + region - 1) / region, patience,
      [&](size_t k, char* to) {
        for (int i = 0; i < size_; i++)
          if (size_t bytes = i == index_ ? 0 : length(index_, i, k))
            std::memcpy(to + region * static_cast<size_t>(i), mine + start_of(index_, i) + k * region, bytes);
      },
      [&](size_t k) {
        for (int i = 0; i < size_; i++)
          if (size_t bytes = i == index_ ? 0 : length(i, index_, k))
            std::memcpy(place(i) + k * region, slot(i, chunk_ + k) + region * static_cast<size_t>(index_), bytes);
      });
}

// Each member reads its part of all inputs, about n·(N-1)/N bytes.
Status ShmGroup::reducescatter(Operation& operation, const Patience& patience) {
  const size_t element = element_bytes(operation.dtype);
  const Buffer& mine = operation.buffers[0];
  auto start_of = [&](int to) {
    size_t start = 0;
    for (int i = 0; i < to; i++) start += operation.counts[static_cast<size_t>(i)] * element;
    return start;
  };
  auto length_of = [&](int to) { return operation.counts[static_cast<size_t>(to)] * element; };
  const size_t start = start_of(index_), bytes = length_of(index_);
  auto reduce_at = [&](size_t at, size_t length) { reduce_to(operation, 0, at, sources_.data(), size_, length); };
  if (mine.bytes == 0) return Status::done;

  if (flag(index_, post_flag::is_inline)) {  // then it is for all members
    for (int i = 0; i < size_; i++) {
      char* copy = scratch_.data() + inline_bytes * static_cast<size_t>(i);
      if (Status status = read_inline(i, copy, start + bytes, patience); status != Status::done) return status;
      sources_[static_cast<size_t>(i)] = copy + start;
    }
    reduce_at(0, bytes);
    return Status::done;
  }

  if (pulls()) {
    const size_t step = 64 * 1024;
    scratch_.resize(std::max(scratch_.size(), step * static_cast<size_t>(size_)));
    for (size_t at = 0; at < bytes; at += step) {
      const size_t length = std::min(step, bytes - at);
      for (int i = 0; i < size_; i++) {
        char* copy = scratch_.data() + step * static_cast<size_t>(i);
        const char* from = mine.in + start + at;
        if (i != index_) {
          Status status = pull(i, entry(i, 0, 1).in + start + at, copy, length);
          if (status != Status::done) return status;
          from = copy;
        }
        if (operation.prescale != 1.0) {
          scale(copy, from, length / element, operation.dtype, operation.prescale);
          from = copy;
        }
        sources_[static_cast<size_t>(i)] = from;
      }
      reduce_at(at, length);
    }
    return operation.is_followed ? Status::done : finish(patience);
  }

  const size_t region = slot_bytes / static_cast<size_t>(size_) & ~static_cast<size_t>(63);
  size_t longest = 0;
  for (int i = 0; i < size_; i++) longest = std::max(longest, length_of(i));
  auto length = [&](int to, size_t k) -> size_t {
    return k * region < length_of(to) ? std::min(region, length_of(to) - k * region) : 0;
  };
  return stream(
      (longest + region - 1) / region, patience,
      [&](size_t k, char* to) {
        for (int i = 0; i < size_; i++)
          if (size_t piece = length(i, k)) pack(operation, start_of(i) + k * region, piece, to + region * static_cast<size_t>(i));
      },
      [&](size_t k) {
        size_t piece = length(index_, k);
        if (piece == 0) return;
        for (int i = 0; i < size_; i++)
          sources_[static_cast<size_t>(i)] = slot(i, chunk_ + k) + region * static_cast<size_t>(index_);
        reduce_at(k * region, piece);
      });
}

}  // namespace hvd
