// Rounds over sockets: posts, waiting, agreement. cross-operations.cc runs the operations.
#include "cross-group.h"

#include <cstring>

namespace hvd {

namespace {
constexpr uint64_t max_bytes = uint64_t{1} << 46;  // of one member; sums over all members cannot overflow
}

CrossGroup::CrossGroup(std::shared_ptr<Mesh> mesh, std::shared_ptr<CrossTransport> transport, size_t carried_bytes)
    : Group(mesh->size(), mesh->index()),
      mesh_(std::move(mesh)),
      transport_(std::move(transport)),
      carried_bytes_(carried_bytes),
      exchanges_(static_cast<size_t>(size_)),
      sources_(static_cast<size_t>(size_)) {}

void CrossGroup::stop() {
  Group::stop();
  mesh_->stop();
  transport_->stop();
}

void CrossGroup::post_to(int i, const char* data, size_t bytes, bool carries, uint64_t fingerprint) {
  Exchange& out = peer(i);
  out.sent_header = {frame_magic,
                     FrameKind::post,
                     carries ? flag::carries : uint8_t{0},
                     static_cast<uint16_t>(index_),
                     round_.load(std::memory_order_relaxed),
                     fingerprint,
                     bytes};
  out.data = data;
  out.sent = 0;
  out.to_send = sizeof(Header) + (carries ? bytes : 0);
  push(i);
}

void CrossGroup::start(const Operation& operation) {
  wait_ = Wait{};
  wait_.may_stall = true;
  fingerprint_ = operation.fingerprint;
  const size_t total = operation.total_bytes();
  const bool sends = operation.kind != Kind::broadcast || operation.root == index_;
  own_carries_ = total <= carried_bytes_ || !sends;
  if (operation.kind == Kind::alltoall) {
    own_carries_ = true;
    for (uint64_t bytes : operation.counts) own_carries_ = own_carries_ && bytes <= carried_bytes_;
  }
  own_data_ = nullptr;
  if (own_carries_ && sends && total > 0) {
    own_data_ = operation.buffers[0].in;
    if (operation.buffers.size() > 1 || !operation.travels_as_it_is()) {
      if (packed_.size() < total) packed_.resize(total);
      pack(operation, 0, total, packed_.data());
      own_data_ = packed_.data();
    }
  }
  peer(index_).posted.store(round_.load(std::memory_order_relaxed), std::memory_order_release);
  size_t part_start = 0;
  const size_t element = operation.kind == Kind::reducescatter ? element_bytes(operation.dtype) : 1;
  for (int i = 0; i < size_; i++) {
    size_t part = sends ? total : 0, offset = 0;
    if (operation.kind == Kind::alltoall || operation.kind == Kind::reducescatter) {
      part = operation.counts[static_cast<size_t>(i)] * element;
      offset = part_start;
      part_start += part;
    }
    if (i != index_) post_to(i, own_data_ ? own_data_ + offset : nullptr, part, own_carries_, fingerprint_);
  }
}

bool CrossGroup::push(int i) {
  Exchange& out = peer(i);
  if (out.is_sent() || broken_ >= 0) return false;
  iovec pieces[2];
  int count = 0;
  if (out.sent < sizeof(Header))
    pieces[count++] = {reinterpret_cast<char*>(&out.sent_header) + out.sent, sizeof(Header) - out.sent};
  if (out.to_send > sizeof(Header)) {
    const size_t gone = out.sent > sizeof(Header) ? out.sent - sizeof(Header) : 0;
    pieces[count++] = {const_cast<char*>(out.data) + gone, out.to_send - sizeof(Header) - gone};
  }
  const ssize_t sent = mesh_->send_some(i, pieces, count);
  if (sent < 0) {
    broken_ = i;
    return true;
  }
  out.sent += static_cast<size_t>(sent);
  return sent > 0;
}

bool CrossGroup::pull(int i) {
  Exchange& in = peer(i);
  if (in.has_all() || broken_ >= 0) return false;
  const uint64_t round = round_.load(std::memory_order_relaxed);
  bool moved = false;
  if (!in.has_post) {
    const int got = mesh_->receive_header(i, in.post);
    if (got < 0) broken_ = i;
    if (got <= 0) return got < 0;
    const Header& post = in.post;
    if (post.magic != frame_magic || post.kind != FrameKind::post || post.sender != i || post.number != round ||
        post.bytes > max_bytes || ((post.flags & flag::carries) && post.bytes > carried_bytes_)) {
      mesh_->protocol_error(i);
      broken_ = i;
      return true;
    }
    in.has_post = true;
    in.received = 0;
    if ((post.flags & flag::carries) && in.carried.size() < post.bytes) in.carried.resize(post.bytes);
    in.posted.store(round, std::memory_order_release);
    moved = true;
  }
  if (!in.has_all()) {
    const ssize_t got = mesh_->receive_some(i, in.carried.data() + in.received, in.post.bytes - in.received);
    if (got < 0) {
      broken_ = i;
      return true;
    }
    in.received += static_cast<size_t>(got);
    moved = moved || got > 0;
  }
  return moved;
}

bool CrossGroup::progress() {
  bool moved = false;
  for (int i = 0; i < size_; i++) {
    if (i == index_) continue;
    if (!peer(i).is_sent()) moved = push(i) || moved;
    moved = pull(i) || moved;
  }
  return moved;
}

bool CrossGroup::is_complete() const {
  for (int i = 0; i < size_; i++) {
    const Exchange& exchange = exchanges_[static_cast<size_t>(i)];
    if (i != index_ && !(exchange.is_sent() && exchange.has_all())) return false;
  }
  return true;
}

Status CrossGroup::report(Status status) {
  culprit_ = mesh_->culprit();
  errno_ = mesh_->errno_value();
  return status;
}

Status CrossGroup::arrive(const Patience& patience) {
  for (;;) {
    const bool moved = progress();
    if (broken_ >= 0) return report(mesh_->broken(broken_));
    if (is_complete()) break;
    if (moved) {
      wait_.moved();
      continue;
    }
    int waiting_for = -1;
    for (int i = 0; i < size_; i++) {
      if (i == index_) continue;
      const bool lacks = !peer(i).has_all(), owes = !peer(i).is_sent();
      mesh_->want(i, lacks, owes);
      if (waiting_for < 0 && (lacks || owes)) waiting_for = i;
    }
    transport_->keep_going();
    const Status status = mesh_->idle(patience, wait_, waiting_for);
    mesh_->want_nothing();
    if (status == Status::stalled) return status;
    if (status != Status::done) return report(status);
  }
  // A late member may find posts of members that have given up since; for them the operation has failed.
  if (mesh_->failed()) return Status::failed;
  for (int i = 0; i < size_; i++) {
    if (i == index_ || peer(i).post.detail == fingerprint_) continue;
    end_round();
    return Status::mismatch;
  }
  return Status::done;
}

void CrossGroup::end_round() {
  for (Exchange& exchange : exchanges_) exchange.has_post = false;
  round_.fetch_add(1, std::memory_order_release);
}

Status CrossGroup::check_idle() {
  if (Status status = mesh_->check(); status != Status::done) return report(status);
  return broken_ >= 0 ? report(mesh_->broken(broken_)) : Status::done;
}

bool CrossGroup::anyone_started() {
  bool started = false;
  for (int i = 0; i < size_; i++) {
    if (i == index_) continue;
    pull(i);
    started = started || peer(i).has_post;
  }
  return started;
}

bool CrossGroup::everyone_arrived() {
  progress();
  return is_complete();
}

void CrossGroup::nap(int64_t timeout_ns) { mesh_->nap(timeout_ns); }

std::vector<int> CrossGroup::missing() const {
  std::vector<int> list;
  const uint64_t round = round_.load(std::memory_order_acquire);
  for (int i = 0; i < size_; i++)
    if (exchanges_[static_cast<size_t>(i)].posted.load(std::memory_order_acquire) < round)
      list.push_back(i);
  return list;
}

}  // namespace hvd
