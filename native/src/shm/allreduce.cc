// Allreduce, four ways. All combine the members' values in index order, so the result does not depend on
// which one runs. n = bytes of the tensor, N = members; bytes are those a member moves.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "../group/touch.h"
#include "shm-group.h"

namespace hvd {

namespace {

// Part i of [0, bytes) when N members share the work; boundaries on cache lines.
size_t part_start(size_t bytes, int i, int parts) {
  return i == parts ? bytes : bytes / static_cast<size_t>(parts) * static_cast<size_t>(i) & ~static_cast<size_t>(63);
}

// Smallest tensor in alloc() memory that is reduced in place. Below it staging is as fast.
constexpr size_t in_arena_from_bytes = 2048;

// With more than two members, reading every slot costs each member N-1 reads of all bytes; from this size on it pays
// to share the work.
constexpr size_t by_parts_from_bytes = 32 * 1024;

}  // namespace

bool ShmGroup::reduces_by_parts(size_t bytes) const { return size_ > 2 && bytes >= by_parts_from_bytes; }

// A chunk for allreduce_by_parts: without our part, which no other member reads, unless it must be scaled or converted.
void ShmGroup::stage_parts(const Operation& operation, size_t offset, size_t length, char* to) {
  if (!operation.travels_as_it_is()) return pack(operation, offset, length, to);
  const size_t start = part_start(length, index_, size_), end = part_start(length, index_ + 1, size_);
  pack(operation, offset, start, to);
  pack(operation, offset + end, length - end, to + end);
}

Status ShmGroup::allreduce(Operation& operation, const Patience& patience) {
  const size_t bytes = operation.total_bytes();
  if (bytes == 0) return Status::done;
  if (bytes <= inline_bytes) return allreduce_inline(operation, bytes, patience);
  const bool are_alike = everyone(post_flag::narrows) || !anyone(post_flag::narrows);
  if (are_alike && everyone(post_flag::addressed) &&
      ((everyone(post_flag::can_copy) && bytes >= copy_from_) ||
       (everyone(post_flag::all_in_arena) && bytes >= in_arena_from_bytes)))
    return allreduce_in_place_of_peers(operation, bytes, patience);
  return reduces_by_parts(bytes) ? allreduce_by_parts(operation, bytes, patience)
                                 : allreduce_direct(operation, bytes, patience);
}

// Small: the data is in the posts. One step, n·(N-1) bytes read.
Status ShmGroup::allreduce_inline(Operation& operation, size_t bytes, const Patience& patience) {
  const size_t elements = bytes / element_bytes(operation.dtype);
  const bool is_as_posted = operation.buffers.size() == 1 && operation.travels_as_it_is();
  for (int i = 0; i < size_; i++) {
    if (i == index_ && is_as_posted) {
      sources_[static_cast<size_t>(i)] = operation.buffers[0].in;
      continue;
    }
    if (bytes <= header_payload_bytes) {
      sources_[static_cast<size_t>(i)] = &post(i).header.words[2];
      continue;
    }
    char* copy = scratch_.data() + inline_bytes * static_cast<size_t>(i);
    if (Status status = read_inline(i, copy, bytes, patience); status != Status::done) return status;
    sources_[static_cast<size_t>(i)] = copy;
  }
  mark(Stage::reduce);
  if (operation.buffers.size() == 1) {
    reduce_to(operation, 0, 0, sources_.data(), size_, bytes);
    return Status::done;
  }
  char* result = scratch_.data() + inline_bytes * static_cast<size_t>(size_);
  reduce(result, sources_.data(), size_, elements, operation.dtype, operation.op, operation.postscale);
  mark(Stage::unpack);
  unpack(operation, 0, bytes, result);
  return Status::done;
}

// Every member copies its data to its slots and reduces the slots of all members itself. One step per chunk, n bytes
// copied and n·(N-1) read.
Status ShmGroup::allreduce_direct(Operation& operation, size_t bytes, const Patience& patience) {
  const size_t chunks = (bytes + slot_bytes - 1) / slot_bytes;
  auto chunk_bytes = [&](size_t k) { return std::min(slot_bytes, bytes - k * slot_bytes); };
  auto produce = [&](size_t k) {
    mark(Stage::pack);
    pack(operation, k * slot_bytes, chunk_bytes(k), slot(index_, chunk_ + k));
    publish(member(index_).produced, chunk_ + k + 1);
  };
  if (!flag(index_, post_flag::staged)) produce(0);
  for (size_t k = 0; k < chunks; k++) {
    if (k + 1 < chunks) produce(k + 1);
    mark(Stage::wait);
    for (int i = 0; i < size_; i++)
      if (i != index_)
        if (Status status = wait_for_chunk(i, chunk_ + k, patience); status != Status::done) return status;
    mark(Stage::reduce);
    for_each_piece(operation.buffers, k * slot_bytes, chunk_bytes(k),
                   [&](size_t b, size_t within, size_t seen, size_t piece) {
                     for (int i = 0; i < size_; i++)
                       sources_[static_cast<size_t>(i)] = i == index_ && operation.travels_as_it_is()
                                                              ? operation.buffers[b].in + within
                                                              : slot(i, chunk_ + k) + seen;
                     reduce_to(operation, b, within, sources_.data(), size_, piece);
                   });
  }
  chunk_ += chunks;
  return Status::done;
}

// Every member copies its data to its slots, reduces one part of all members' data, and copies the other parts from
// the members that reduced them. Two steps per chunk, less than 3n bytes for any N.
Status ShmGroup::allreduce_by_parts(Operation& operation, size_t bytes, const Patience& patience) {
  const size_t chunks = (bytes + slot_bytes - 1) / slot_bytes;
  const size_t element = element_bytes(operation.dtype);
  auto chunk_bytes = [&](size_t k) { return std::min(slot_bytes, bytes - k * slot_bytes); };
  auto produce = [&](size_t k) {
    mark(Stage::pack);
    stage_parts(operation, k * slot_bytes, chunk_bytes(k), slot(index_, chunk_ + k));
    publish(member(index_).produced, chunk_ + k + 1);
  };
  if (!flag(index_, post_flag::staged)) produce(0);
  for (size_t k = 0; k < chunks; k++) {
    const uint64_t chunk = chunk_ + k;
    const size_t length = chunk_bytes(k);
    mark(Stage::wait);
    for (int i = 0; i < size_; i++)
      if (i != index_)
        if (Status status = wait_for_chunk(i, chunk, patience); status != Status::done) return status;
    size_t start = part_start(length, index_, size_), end = part_start(length, index_ + 1, size_);
    mark(Stage::reduce);
    // No other member reads this part of our slot, so the result can be written there.
    for_each_piece(operation.buffers, k * slot_bytes + start, end - start,
                   [&](size_t b, size_t within, size_t seen, size_t piece) {
                     for (int i = 0; i < size_; i++)
                       sources_[static_cast<size_t>(i)] = i == index_ && operation.travels_as_it_is()
                                                              ? operation.buffers[b].in + within
                                                              : slot(i, chunk) + start + seen;
                     reduce(slot(index_, chunk) + start + seen, sources_.data(), size_, piece / element,
                            operation.dtype, operation.op, operation.postscale);
                   });
    publish(member(index_).reduced, chunk + 1);
    if (k + 1 < chunks) produce(k + 1);
    for (int n = 0; n < size_; n++) {
      int i = (index_ + n) % size_;
      if (i != index_) {
        mark(Stage::wait);
        Status status = wait_for(i, patience, false, [&](int m) {
          return member(m).reduced.load(std::memory_order_acquire) > chunk;
        });
        if (status != Status::done) return status;
      }
      size_t from = part_start(length, i, size_), to = part_start(length, i + 1, size_);
      mark(Stage::unpack);
      unpack(operation, k * slot_bytes + from, to - from, slot(i, chunk) + from);
    }
  }
  chunk_ += chunks;
  return Status::done;
}

// Every member reduces one part directly from the memory of all members and writes the result directly into their
// memory. One step at the end, n/N·(2N-1) bytes. Member i touches only part i, so no member reads what another one
// writes. With `narrows`, float32 is read and written: the system calls cost more than the bytes.
Status ShmGroup::allreduce_in_place_of_peers(Operation& operation, size_t bytes, const Patience& patience) {
  const size_t element = element_bytes(operation.dtype), width = operation.width();
  const size_t buffers = operation.buffers.size();
  const size_t in_memory = everyone(post_flag::all_in_arena) ? 32 * 1024 : size_ <= 4 ? 128 * 1024 : 64 * 1024;
  const size_t step = in_memory / width;
  const bool scales = operation.prescale != 1.0;
  // For each member what lies in its memory, followed, with `narrows`, by what would travel.
  const size_t room = in_memory + (operation.narrows ? step : 0);
  scratch_.resize(std::max(scratch_.size(), room * static_cast<size_t>(size_)));
  auto scratch_of = [&](int i) { return scratch_.data() + room * static_cast<size_t>(i); };

  std::vector<PeerMemory::Piece> copies;
  std::vector<Buffer> mapped;
  const size_t end = part_start(bytes, index_ + 1, size_);
  for (size_t at = part_start(bytes, index_, size_); at < end; at += step) {
    const size_t length = std::min(step, end - at);
    int error = 0, culprit = -1;
    mark(Stage::copy);
    for (int i = 0; i < size_ && !error; i++) {
      if (i == index_) continue;
      copies.clear();
      for_each_piece(operation.buffers, at, length, [&](size_t b, size_t within, size_t seen, size_t piece) {
        uint64_t from = entry(i, b, buffers).in;
        if (!(from & arena_bit)) copies.push_back({from + within * width, scratch_of(i) + seen * width, piece * width});
      });
      if (!copies.empty()) error = peers_.read_pieces(i, copies);
      if (error) culprit = i;
    }
    if (error) return system_failure(culprit, error);

    mark(Stage::reduce);
    for_each_piece(operation.buffers, at, length, [&](size_t b, size_t within, size_t seen, size_t piece) {
      for (int i = 0; i < size_; i++) {
        const char* from;
        if (i == index_) {
          from = operation.buffers[b].in + within * width;
        } else {
          uint64_t address = entry(i, b, buffers).in;
          from = scratch_of(i) + seen * width;
          if (address & arena_bit) {
            from = peers_.arena_pointer(i, address + within * width);
            if (!from) {
              culprit = i;
              from = scratch_of(i) + seen * width;  // anything readable; the operation fails below
            }
          }
        }
        char* const ready = scratch_of(i) + (operation.narrows ? in_memory : 0) + seen;
        if (operation.narrows) {
          narrow(ready, reinterpret_cast<const float*>(from), piece / element, operation.dtype);
          from = ready;
        }
        if (scales) {
          scale(ready, from, piece / element, operation.dtype, operation.prescale);
          from = ready;
        }
        sources_[static_cast<size_t>(i)] = from;
      }
      reduce_to(operation, b, within, sources_.data(), size_, piece);
    });
    if (culprit >= 0) return system_failure(culprit, ENOMEM);

    mark(Stage::copy);
    for (int i = 0; i < size_; i++) {
      if (i == index_) continue;
      copies.clear();
      mapped.clear();
      for_each_piece(operation.buffers, at, length, [&](size_t b, size_t within, size_t, size_t piece) {
        uint64_t to = entry(i, b, buffers).out;
        char* mine = operation.buffers[b].out + within * width;
        if (!(to & arena_bit))
          copies.push_back({to + within * width, mine, piece * width});
        else if (char* theirs = peers_.arena_pointer(i, to + within * width))
          mapped.push_back({mine, theirs, piece * width});
        else
          culprit = i;
      });
      if (culprit >= 0) return system_failure(culprit, ENOMEM);
      if (!mapped.empty()) {
        const Touch touch(control_, member(i).gone);
        if (!touch) return turned_away(i);
        for (const Buffer& piece : mapped) std::memcpy(piece.out, piece.in, piece.bytes);
      }
      if (!copies.empty()) error = peers_.write_pieces(i, copies, control_);
      if (error) return error == ECANCELED ? turned_away(i) : system_failure(i, error);
    }
  }
  return finish(patience);
}

}  // namespace hvd
