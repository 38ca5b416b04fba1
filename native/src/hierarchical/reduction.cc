// Allreduce, reducescatter and broadcast over several hosts. n = bytes, H = hosts, L = lanes. Every lane sends and receives
// 2·n/L·(H-1)/H bytes for an allreduce (with a ring across), and at most n/L for the others. Steps: those of the cross
// transport, and three rounds inside the host for each piece.
#include <algorithm>
#include <cstring>

#include "hierarchical-group.h"

namespace hvd {

namespace {

size_t at(const std::vector<uint64_t>& list, int i) { return static_cast<size_t>(list[static_cast<size_t>(i)]); }

// Visits the parts of blocks that make up elements [from, to) of the concatenated blocks of `members`:
// `visit(member, place in `members`, first element within its block, elements)`.
template <class Visit>
void for_each_block(const std::vector<int>& members, const std::vector<uint64_t>& counts, size_t from, size_t to,
                    const Visit& visit) {
  size_t start = 0;
  for (size_t place = 0; place < members.size(); place++) {
    const size_t end = start + at(counts, members[place]);
    const size_t first = std::max(start, from), last = std::min(end, to);
    if (first < last) visit(members[place], static_cast<int>(place), first - start, last - first);
    start = end;
  }
}

size_t sum_of(const std::vector<int>& members, const std::vector<uint64_t>& counts) {
  size_t sum = 0;
  for (int member : members) sum += at(counts, member);
  return sum;
}

}  // namespace

// Describes the round inside the host that gives every lane its share of bytes [offset, offset + bytes), reduced over this
// host. Small operations have one lane: the leader.
bool HierarchicalGroup::describe_reduction(const Operation& operation, size_t offset, size_t bytes) {
  const size_t element = element_bytes(operation.dtype), elements = bytes / element;
  const int shares = operation.total_bytes() <= small_bytes ? 1 : lanes();
  inside_.kind = Kind::reducescatter;
  inside_.counts.assign(here().size(), 0);
  for (int l = 0; l < shares; l++)
    inside_.counts[static_cast<size_t>(l)] = cut(elements, l + 1, shares) - cut(elements, l, shares);
  if (!shard_.reserve(at(inside_.counts, place_) * element + 1)) return false;
  const char* in = nullptr;
  inside_.prescale = operation.prescale;
  if (!is_packed(operation)) {
    in = operation.buffers[0].in + offset;
  } else if (here_count() == 1) {  // then it is reduced already
    pack(operation, offset, bytes, shard_.data());
    inside_.kind = Kind::barrier;
    inside_.buffers.clear();
    return true;
  } else {
    if (!packed_.reserve(bytes + 1)) return false;
    pack(operation, offset, bytes, packed_.data());
    in = packed_.data();
    inside_.prescale = 1;
  }
  inside_.buffers.assign(1, {in, shard_.data(), bytes});
  return true;
}

bool HierarchicalGroup::start_allreduce(const Operation& operation) {
  const size_t bytes = operation.total_bytes();
  if (!describe_reduction(operation, 0, std::min(bytes, piece_bytes()))) return false;
  if (bytes > small_bytes) return true;
  across_.kind = Kind::allreduce;
  across_.postscale = operation.postscale;
  across_.buffers.assign(1, {shard_.data(), shard_.data(), bytes});
  char* out = is_packed(operation) ? gathered_at() : operation.buffers[0].out;
  verdict_.kind = Kind::broadcast;
  verdict_.buffers.assign(1, {is_leader() ? shard_.data() : out, out, bytes});
  return true;
}

Status HierarchicalGroup::allreduce(Operation& operation, const Patience& patience) {
  const size_t bytes = operation.total_bytes();
  const size_t element = element_bytes(operation.dtype);
  if (bytes <= small_bytes) {
    mark(Stage::unpack);
    if (is_packed(operation)) unpack(operation, 0, bytes, gathered_at());
    return Status::done;
  }
  for (size_t offset = 0; offset < bytes; offset += piece_bytes()) {
    const size_t piece = std::min(piece_bytes(), bytes - offset);
    if (offset > 0) {
      if (!describe_reduction(operation, offset, piece)) return Status::no_memory;
      mark(Stage::reduce);
      inside_.is_followed = true;  // by gather_shards()
      if (Status status = run_inside(inside_, patience); status != Status::done) return status;
    }
    if (place_ < lanes()) {
      const size_t elements = at(inside_.counts, place_);
      mark(Stage::transfer);
      Status status =
          from_transport(transport_->allreduce(shard_.data(), elements, operation.dtype, operation.op, patience));
      if (status != Status::done) return status;
      if (operation.postscale != 1.0)
        scale(shard_.data(), shard_.data(), elements, operation.dtype, operation.postscale);
    }
    mark(Stage::copy);
    if (Status status = gather_shards(operation, offset, piece, element, patience); status != Status::done)
      return status;
  }
  return Status::done;
}

// Every member takes bytes [offset, offset + bytes) of the result from the lanes of its host.
Status HierarchicalGroup::gather_shards(Operation& operation, size_t offset, size_t bytes, size_t element,
                                        const Patience& patience) {
  if (is_packed(operation) && here_count() == 1) {
    unpack(operation, offset, bytes, gathered_at());
    return Status::done;
  }
  const size_t elements = bytes / element;
  const size_t mine =
      place_ < lanes() ? (cut(elements, place_ + 1, lanes()) - cut(elements, place_, lanes())) * element : 0;
  char* to = is_packed(operation) ? packed_.data() : operation.buffers[0].out + offset;
  inside_.kind = Kind::allgather;
  inside_.is_followed = false;
  inside_.prescale = 1;
  inside_.buffers.assign(1, {shard_.data(), shard_.data(), mine});
  inside_.counts.clear();
  inside_.allocate = allocate_at;
  inside_.allocate_context = to;
  if (Status status = run_inside(inside_, patience); status != Status::done) return status;
  if (is_packed(operation)) unpack(operation, offset, bytes, packed_.data());
  return Status::done;
}

// --- reducescatter --------------------------------------------------------------------------------------------------------

// The elements of host b's members, one block after another, are cut into a share for each lane. Packed: all shares of lane 0
// (for host 0, 1, …), then those of lane 1, …
bool HierarchicalGroup::start_reducescatter(const Operation& operation) {
  const size_t element = element_bytes(operation.dtype);
  const Buffer& mine = operation.buffers[0];
  std::vector<size_t> starts(static_cast<size_t>(size_));
  for (size_t i = 1; i < starts.size(); i++)
    starts[i] = starts[i - 1] + static_cast<size_t>(operation.counts[i - 1]);
  if (!packed_.reserve(mine.bytes + 1)) return false;
  inside_.kind = Kind::reducescatter;
  inside_.counts.assign(here().size(), 0);
  char* to = packed_.data();
  for (int l = 0; l < lanes(); l++) {
    for (int host = 0; host < placement_.host_count(); host++) {
      const std::vector<int>& there = placement_.on(host);
      const size_t total = sum_of(there, operation.counts);
      const size_t from = cut(total, l, lanes()), end = cut(total, l + 1, lanes());
      inside_.counts[static_cast<size_t>(l)] += end - from;
      for_each_block(there, operation.counts, from, end, [&](int member, int, size_t within, size_t elements) {
        pack(operation, (starts[static_cast<size_t>(member)] + within) * element, elements * element, to);
        to += elements * element;
      });
    }
  }
  if (!shard_.reserve(at(inside_.counts, place_) * element + 1)) return false;
  inside_.buffers.assign(1, {packed_.data(), shard_.data(), mine.bytes});
  return true;
}

Status HierarchicalGroup::reducescatter(Operation& operation, const Patience& patience) {
  const size_t element = element_bytes(operation.dtype);
  const size_t total = sum_of(here(), operation.counts);
  size_t mine = 0, start = 0;
  inside_.counts.assign(here().size(), 0);
  if (place_ < lanes()) {
    std::vector<size_t> shares;
    for (int host = 0; host < placement_.host_count(); host++) {
      const size_t there = sum_of(placement_.on(host), operation.counts);
      shares.push_back(cut(there, place_ + 1, lanes()) - cut(there, place_, lanes()));
      if (host < host_) start += shares.back();
    }
    Status status = from_transport(transport_->reducescatter(shard_.data(), shares, operation.dtype, operation.op, patience));
    if (status != Status::done) return status;
    mine = shares[static_cast<size_t>(host_)];
    if (operation.postscale != 1.0) {
      char* data = shard_.data() + start * element;
      scale(data, data, mine, operation.dtype, operation.postscale);
    }
    const size_t from = cut(total, place_, lanes());
    for_each_block(here(), operation.counts, from, from + mine, [&](int, int place, size_t, size_t elements) {
      inside_.counts[static_cast<size_t>(place)] = elements * element;
    });
  }
  char nothing = 0;
  char* out = operation.buffers[0].out;
  const size_t own = at(operation.counts, index_) * element;
  if (operation.narrows) {
    if (!gathered_.reserve(own + 1)) return Status::no_memory;
    out = gathered_.data();
  }
  inside_.kind = Kind::alltoall;
  inside_.is_followed = false;
  inside_.buffers.assign(1, {shard_.data() + start * element, shard_.data(), mine * element});
  inside_.allocate = allocate_at;
  inside_.allocate_context = out ? out : &nothing;
  if (Status status = run_inside(inside_, patience); status != Status::done) return status;
  if (operation.narrows) put(operation, 0, 0, out, own);
  return Status::done;
}

// --- broadcast ------------------------------------------------------------------------------------------------------------

// Describes the round inside the root's host that gives every lane its share of bytes [offset, offset + bytes).
bool HierarchicalGroup::describe_scatter(const Operation& operation, size_t offset, size_t bytes) {
  const size_t mine = place_ < lanes() ? cut(bytes, place_ + 1, lanes()) - cut(bytes, place_, lanes()) : 0;
  if (!shard_.reserve(mine + 1)) return false;
  if (host_ != placement_.host_of[static_cast<size_t>(operation.root)]) return true;
  const bool is_root = index_ == operation.root;
  inside_.kind = Kind::alltoall;
  inside_.counts.assign(here().size(), 0);
  if (is_root)
    for (int l = 0; l < lanes(); l++)
      inside_.counts[static_cast<size_t>(l)] = cut(bytes, l + 1, lanes()) - cut(bytes, l, lanes());
  inside_.buffers.assign(1, {is_root ? operation.buffers[0].in + offset : shard_.data(), shard_.data(), is_root ? bytes : 0});
  inside_.allocate = allocate_at;
  inside_.allocate_context = shard_.data();
  return true;
}

bool HierarchicalGroup::start_broadcast(const Operation& operation) {
  const Buffer& mine = operation.buffers[0];
  const size_t bytes = mine.bytes;
  if (bytes > small_bytes) return describe_scatter(operation, 0, std::min(bytes, piece_bytes()));
  if (!shard_.reserve(bytes + 1)) return false;
  const size_t root = static_cast<size_t>(operation.root);
  if (index_ == operation.root && bytes > 0) std::memcpy(shard_.data(), mine.in, bytes);
  if (host_ == placement_.host_of[root] && placement_.local_of[root] != 0) {
    inside_.kind = Kind::broadcast;
    inside_.root = placement_.local_of[root];
    inside_.buffers.assign(1, {shard_.data(), shard_.data(), bytes});
  }
  across_.kind = Kind::broadcast;
  across_.root = placement_.host_of[root];
  across_.buffers.assign(1, {shard_.data(), shard_.data(), bytes});
  verdict_.kind = Kind::broadcast;
  verdict_.buffers.assign(1, {shard_.data(), mine.out, bytes});
  return true;
}

Status HierarchicalGroup::broadcast(Operation& operation, const Patience& patience) {
  const size_t bytes = operation.buffers[0].bytes;
  if (bytes <= small_bytes) return Status::done;
  const int root_host = placement_.host_of[static_cast<size_t>(operation.root)];
  for (size_t offset = 0; offset < bytes; offset += piece_bytes()) {
    const size_t piece = std::min(piece_bytes(), bytes - offset);
    if (offset > 0) {
      if (!describe_scatter(operation, offset, piece)) return Status::no_memory;
      if (host_ == root_host)
        if (Status status = run_inside(inside_, patience); status != Status::done) return status;
    }
    if (place_ < lanes()) {
      const size_t share = cut(piece, place_ + 1, lanes()) - cut(piece, place_, lanes());
      Status status = from_transport(transport_->broadcast(shard_.data(), share, root_host, patience));
      if (status != Status::done) return status;
    }
    if (Status status = gather_shards(operation, offset, piece, 1, patience); status != Status::done) return status;
  }
  return Status::done;
}

}  // namespace hvd
