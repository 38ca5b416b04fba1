// Operations of a CrossGroup, once all members have agreed: the data is in the posts, or the cross transport moves it.
// n = bytes of the operation, N = members. The files of the cross transports state the price of larger operations.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cross-group.h"

namespace hvd {

Status CrossGroup::execute(Operation& operation, const Patience& patience) {
  mark(Stage::transfer);
  Status status = Status::done;
  if (!has_sizes(operation)) {
    status = Status::system_error;
  } else {
    switch (operation.kind) {
      case Kind::allreduce: status = allreduce(operation, patience); break;
      case Kind::reducescatter: status = reducescatter(operation, patience); break;
      case Kind::allgather: status = allgather(operation, patience); break;
      case Kind::broadcast: status = broadcast(operation, patience); break;
      case Kind::alltoall: status = alltoall(operation, patience); break;
      case Kind::barrier: break;
    }
  }
  if (status == Status::done) end_round();  // after a failure missing() still reports this round
  return status;
}

// Equal fingerprints should imply this; a peer that breaks it must not make us read or write past a buffer.
bool CrossGroup::has_sizes(const Operation& operation) {
  const size_t total = operation.total_bytes();
  for (int i = 0; i < size_; i++) {
    if (i == index_) continue;
    const Header& post = exchanges_[static_cast<size_t>(i)].post;
    const bool carries = (post.flags & flag::carries) != 0;
    bool fits = true;
    if (operation.kind == Kind::allreduce) fits = post.bytes == total && carries == own_carries_;
    if (operation.kind == Kind::reducescatter)
      fits = post.bytes == operation.counts[static_cast<size_t>(index_)] * element_bytes(operation.dtype) &&
             carries == own_carries_;
    if (operation.kind == Kind::broadcast) fits = i != operation.root || post.bytes == total;
    if (fits) continue;
    culprit_ = i;
    errno_ = EPROTO;
    return false;
  }
  return true;
}

bool CrossGroup::everyone_carries() const {
  if (!own_carries_) return false;
  for (int i = 0; i < size_; i++)
    if (i != index_ && !(exchanges_[static_cast<size_t>(i)].post.flags & flag::carries)) return false;
  return true;
}

Status CrossGroup::transport_report(Status status) {
  culprit_ = transport_->culprit();
  errno_ = transport_->errno_value();
  return status;
}

namespace {
// put(), multiplied by postscale. `from` may be changed.
void place(const Operation& operation, size_t b, size_t within, char* from, size_t bytes) {
  const size_t elements = bytes / element_bytes(operation.dtype);
  if (operation.postscale == 1.0) return put(operation, b, within, from, bytes);
  if (!operation.narrows)
    return scale(operation.buffers[b].out + within, from, elements, operation.dtype, operation.postscale);
  scale(from, from, elements, operation.dtype, operation.postscale);
  put(operation, b, within, from, bytes);
}
}  // namespace

// In the posts: one step, n·(N-1) bytes sent. Otherwise by the transport, directly in the output if there is one buffer.
Status CrossGroup::allreduce(Operation& operation, const Patience& patience) {
  const size_t bytes = operation.total_bytes(), element = element_bytes(operation.dtype);
  if (bytes == 0) return Status::done;
  if (own_carries_) {
    for_each_piece(operation.buffers, 0, bytes, [&](size_t b, size_t within, size_t seen, size_t piece) {
      for (int i = 0; i < size_; i++)
        sources_[static_cast<size_t>(i)] = (i == index_ ? own_data_ : carried_by(i)) + seen;
      reduce_to(operation, b, within, sources_.data(), size_, piece);
    });
    return Status::done;
  }
  const bool is_one = operation.buffers.size() == 1 && !operation.narrows;
  if (!is_one) reserve(bytes);
  char* data = is_one ? operation.buffers[0].out : scratch_.data();
  if (!is_one || data != operation.buffers[0].in || operation.prescale != 1.0) pack(operation, 0, bytes, data);
  Status status = transport_->allreduce(data, bytes / element, operation.dtype, operation.op, patience);
  if (status != Status::done) return transport_report(status);
  for_each_piece(operation.buffers, 0, bytes, [&](size_t b, size_t within, size_t seen, size_t piece) {
    place(operation, b, within, data + seen, piece);
  });
  return Status::done;
}

// In the posts: one step, each member sends every other one its part, less than n bytes in total.
Status CrossGroup::reducescatter(Operation& operation, const Patience& patience) {
  const Buffer& mine = operation.buffers[0];
  const size_t element = element_bytes(operation.dtype);
  if (mine.bytes == 0) return Status::done;
  std::vector<size_t> counts(operation.counts.begin(), operation.counts.end());
  size_t start = 0;
  for (int i = 0; i < index_; i++) start += counts[static_cast<size_t>(i)] * element;
  const size_t bytes = counts[static_cast<size_t>(index_)] * element;
  if (own_carries_) {
    for (int i = 0; i < size_; i++)
      sources_[static_cast<size_t>(i)] = i == index_ ? own_data_ + start : carried_by(i);
    if (bytes > 0) reduce_to(operation, 0, 0, sources_.data(), size_, bytes);
    return Status::done;
  }
  reserve(mine.bytes);
  pack(operation, 0, mine.bytes, scratch_.data());
  Status status = transport_->reducescatter(scratch_.data(), counts, operation.dtype, operation.op, patience);
  if (status != Status::done) return transport_report(status);
  place(operation, 0, 0, scratch_.data() + start, bytes);
  return Status::done;
}

// In the posts: one step, n·(N-1) bytes sent.
Status CrossGroup::allgather(Operation& operation, const Patience& patience) {
  const Buffer& mine = operation.buffers[0];
  operation.received.resize(static_cast<size_t>(size_));
  for (int i = 0; i < size_; i++)
    operation.received[static_cast<size_t>(i)] =
        i == index_ ? mine.bytes : exchanges_[static_cast<size_t>(i)].post.bytes;
  if (!operation.allocate_result()) return Status::no_memory;
  const bool in_posts = everyone_carries();
  char* to = operation.result;
  for (int i = 0; i < size_; i++) {
    const size_t bytes = operation.received[static_cast<size_t>(i)];
    if (bytes > 0 && (i == index_ || in_posts)) std::memcpy(to, i == index_ ? mine.in : carried_by(i), bytes);
    to += bytes;
  }
  if (in_posts) return Status::done;
  std::vector<size_t> bytes(operation.received.begin(), operation.received.end());
  Status status = transport_->allgather(operation.result, bytes, patience);
  return status == Status::done ? status : transport_report(status);
}

// In the root's posts: one step, n·(N-1) bytes sent by the root.
Status CrossGroup::broadcast(Operation& operation, const Patience& patience) {
  const Buffer& mine = operation.buffers[0];
  const bool is_root = operation.root == index_;
  if (mine.bytes == 0) return Status::done;
  if (is_root && mine.out != mine.in) std::memmove(mine.out, mine.in, mine.bytes);
  const bool in_posts =
      is_root ? own_carries_ : (exchanges_[static_cast<size_t>(operation.root)].post.flags & flag::carries) != 0;
  if (in_posts) {
    if (!is_root) std::memcpy(mine.out, carried_by(operation.root), mine.bytes);
    return Status::done;
  }
  Status status = transport_->broadcast(mine.out, mine.bytes, operation.root, patience);
  return status == Status::done ? status : transport_report(status);
}

// In the posts if every part of every member fits: one step, every byte sent once. Otherwise the transport moves all parts.
Status CrossGroup::alltoall(Operation& operation, const Patience& patience) {
  std::vector<size_t> send(operation.counts.begin(), operation.counts.end()), receive(static_cast<size_t>(size_));
  for (int i = 0; i < size_; i++)
    receive[static_cast<size_t>(i)] = i == index_ ? send[static_cast<size_t>(i)]
                                                  : exchanges_[static_cast<size_t>(i)].post.bytes;
  operation.received.assign(receive.begin(), receive.end());
  if (!operation.allocate_result()) return Status::no_memory;
  if (everyone_carries()) {
    char* to = operation.result;
    size_t own_start = 0;
    for (int i = 0; i < index_; i++) own_start += send[static_cast<size_t>(i)];
    for (int i = 0; i < size_; i++) {
      const size_t bytes = receive[static_cast<size_t>(i)];
      if (bytes > 0) std::memcpy(to, i == index_ ? own_data_ + own_start : carried_by(i), bytes);
      to += bytes;
    }
    return Status::done;
  }
  Status status = transport_->alltoall(operation.buffers[0].in, send, operation.result, receive, patience);
  return status == Status::done ? status : transport_report(status);
}

}  // namespace hvd
