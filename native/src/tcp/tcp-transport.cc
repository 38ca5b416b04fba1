// n = bytes of the operation, N = members. "Steps" are messages that wait for each other; "bytes" are those a member sends.
#include "tcp-transport.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace hvd {

namespace {

// Up to this size the steps of a broadcast matter more than its bytes.
constexpr size_t tree_bytes = 64 * 1024;
// The maximum that is sent or received in one call, during which the other direction waits.
constexpr size_t piece_bytes = 128 * 1024;
// While more arrives, received bytes are forwarded in pieces of at least this size: each piece costs a system call.
constexpr size_t forward_bytes = 16 * 1024;

// A position in a list of segments.
template <class Segment>
struct Cursor {
  const std::vector<Segment>& list;
  size_t segment = 0, within = 0;
  explicit Cursor(const std::vector<Segment>& segments) : list(segments) { skip_empty(); }
  bool at_end() const { return segment == list.size(); }
  char* place() const { return list[segment].data + within; }
  size_t left() const { return list[segment].bytes - within; }
  void advance(size_t bytes) {
    within += bytes;
    skip_empty();
  }
  void skip_empty() {
    while (segment < list.size() && within == list[segment].bytes) {
      segment++;
      within = 0;
    }
  }
};

template <class Segment>
size_t total_of(const std::vector<Segment>& list) {
  size_t total = 0;
  for (const Segment& segment : list) total += segment.bytes;
  return total;
}

}  // namespace

TcpTransport::TcpTransport(std::shared_ptr<Mesh> mesh)
    : mesh_(std::move(mesh)), size_(mesh_->size()), index_(mesh_->index()) {}

Status TcpTransport::run(Flow& flow, const Patience& patience) {
  step_++;
  const size_t to_send = flow.to < 0 ? 0 : total_of(flow.out), to_receive = flow.from < 0 ? 0 : total_of(flow.in);
  Header header{frame_magic, FrameKind::data, flow.flags, static_cast<uint16_t>(index_), call_, step_, to_send};
  Header theirs{};
  size_t header_sent = 0, sent = 0, received = 0;  // `received`: and reduced, if the segment is to be reduced
  size_t kept = 0;                                 // bytes in scratch_ of an incomplete element
  bool has_header = to_receive == 0;
  const size_t element = element_bytes(flow.dtype);
  if (flow.reduced_segments > 0 && scratch_.size() < piece_bytes) scratch_.resize(piece_bytes);
  Cursor out(flow.out), in(flow.in);
  Wait wait;
  int moves = 0;
  bool has_come = false;  // whether the last receive brought something

  while (sent < to_send || received < to_receive) {
    bool moved = false;
    const size_t allowed = std::min(to_send, flow.ready + received);
    const bool sends = allowed > sent && (allowed - sent >= forward_bytes || allowed == to_send || !has_come);
    if (sends) {
      iovec pieces[4];
      int count = 0;
      if (header_sent < sizeof header)
        pieces[count++] = {reinterpret_cast<char*>(&header) + header_sent, sizeof header - header_sent};
      size_t room = std::min(allowed - sent, piece_bytes);
      for (Cursor next = out; room > 0 && count < 4;) {
        const size_t piece = std::min(room, next.left());
        pieces[count++] = {next.place(), piece};
        room -= piece;
        next.advance(piece);
      }
      const ssize_t result = mesh_->send_some(flow.to, pieces, count);
      if (result < 0) return mesh_->broken(flow.to);
      moved = result > 0;
      auto gone = static_cast<size_t>(result);
      const size_t of_header = std::min(gone, sizeof header - header_sent);
      header_sent += of_header;
      gone -= of_header;
      sent += gone;
      while (gone > 0) {
        const size_t piece = std::min(gone, out.left());
        out.advance(piece);
        gone -= piece;
      }
    }
    if (!has_header) {
      const int result = mesh_->receive_header(flow.from, theirs);
      if (result < 0) return mesh_->broken(flow.from);
      if (result > 0) {
        if (theirs.magic != frame_magic || theirs.kind != FrameKind::data || theirs.flags != flow.flags ||
            theirs.sender != flow.from || theirs.number != call_ || theirs.detail != step_ || theirs.bytes != to_receive)
          return mesh_->protocol_error(flow.from);
        has_header = moved = true;
      }
    }
    if (has_header && received < to_receive) {
      const bool reduces = in.segment < flow.reduced_segments;
      char* place = reduces ? scratch_.data() + kept : in.place();
      const size_t room = reduces ? std::min(piece_bytes, in.left()) - kept : std::min(piece_bytes, in.left());
      const ssize_t result = mesh_->receive_some(flow.from, place, room);
      if (result < 0) return mesh_->broken(flow.from);
      has_come = result > 0;
      moved = moved || has_come;
      size_t done = static_cast<size_t>(result);
      if (reduces && result > 0) {
        kept += done;
        done = kept / element * element;
        const void* sources[2] = {scratch_.data(), in.place()};
        reduce(in.place(), sources, 2, done / element, flow.dtype, flow.op, 1.0);
        kept -= done;
        if (kept > 0) std::memmove(scratch_.data(), scratch_.data() + done, kept);
      }
      received += done;
      if (done > 0) in.advance(done);
    }
    if (moved) {
      wait = Wait{};
      if (++moves % 64 == 0) {
        if (mesh_->stopping()) return Status::stopped;
        if (mesh_->failed()) return Status::failed;
      }
      continue;
    }
    // Nothing has arrived, so everything that may be sent has been tried.
    const bool lacks = received < to_receive;
    if (flow.to >= 0) mesh_->want(flow.to, lacks && flow.to == flow.from, sends);
    if (lacks && flow.from != flow.to) mesh_->want(flow.from, true, false);
    const Status status = mesh_->idle(patience, wait, lacks ? flow.from : flow.to);
    mesh_->want_nothing();
    if (status != Status::done) return status;
  }
  return Status::done;
}

// Around the ring: sends segments first, first-1, … to the right and receives first-1, first-2, … from the left; each is
// forwarded when it has been reduced (the first `reduced` of them) or received. Segment k is [starts[k], starts[k+1]).
Status TcpTransport::ring(char* data, const std::vector<size_t>& starts, int first, int reduced, int segments, DType dtype,
                          Op op, const Patience& patience) {
  Flow flow;
  flow.to = (index_ + 1) % size_;
  flow.from = (index_ + size_ - 1) % size_;
  auto segment = [&](int k) -> Segment {
    const auto i = static_cast<size_t>(((first - k) % size_ + size_) % size_);
    return {data + starts[i], starts[i + 1] - starts[i]};
  };
  for (int k = 0; k < segments; k++) {
    flow.out.push_back(segment(k));
    flow.in.push_back(segment(k + 1));
  }
  flow.ready = flow.out[0].bytes;
  flow.reduced_segments = static_cast<size_t>(reduced);
  flow.dtype = dtype;
  flow.op = op;
  return run(flow, patience);
}

// Large: a ring of N parts, reduced on the first way around and distributed on the second; 2(N-1) steps, 2(N-1)/N·n bytes,
// with both directions of every link always busy. Two members each send one half, and the other half when it is reduced.
Status TcpTransport::allreduce(char* data, size_t count, DType dtype, Op op, const Patience& patience) {
  call_++;
  step_ = 0;
  const size_t element = element_bytes(dtype), bytes = count * element;
  if (size_ == 1 || bytes == 0) return Status::done;
  if (bytes <= doubling_bytes_.load(std::memory_order_relaxed)) return recursive_doubling(data, bytes, dtype, op, patience);
  std::vector<size_t> starts(static_cast<size_t>(size_) + 1);
  for (size_t i = 0; i < starts.size(); i++)  // on cache lines, and so on elements
    starts[i] = i + 1 == starts.size() ? bytes : bytes / static_cast<size_t>(size_) * i & ~static_cast<size_t>(63);
  return ring(data, starts, index_, size_ - 1, 2 * (size_ - 1), dtype, op, patience);
}

// Small: in step k members exchange all values with the member whose number differs in bit k; log2 N steps, n·log2 N bytes.
// If N is not a power of two and P is the next smaller one, the first N-P even members send their values to the next odd
// member before and receive the result after: two more steps.
Status TcpTransport::recursive_doubling(char* data, size_t bytes, DType dtype, Op op, const Patience& patience) {
  const size_t elements = bytes / element_bytes(dtype);
  int power = 1;
  while (power * 2 <= size_) power *= 2;
  const int extra = size_ - power;
  if (other_.size() < bytes) other_.resize(bytes);
  auto send = [&](int to) {
    Flow flow;
    flow.flags = flag::doubles;
    flow.to = to;
    flow.out = {{data, bytes}};
    flow.ready = bytes;
    return run(flow, patience);
  };
  auto receive = [&](int from, char* into) {
    Flow flow;
    flow.flags = flag::doubles;
    flow.from = from;
    flow.in = {{into, bytes}};
    return run(flow, patience);
  };
  // Both partners combine in the same order, so they get the same bits.
  auto combine = [&](int partner) {
    const void* sources[2] = {partner < index_ ? other_.data() : data, partner < index_ ? data : other_.data()};
    reduce(data, sources, 2, elements, dtype, op, 1.0);
  };
  const bool has_extra = index_ < 2 * extra && index_ % 2 == 1;
  // Steps have the same numbers on both sides: 1 before, 2 … between, and one more after.
  if (index_ < 2 * extra && index_ % 2 == 0) {
    if (Status status = send(index_ + 1); status != Status::done) return status;
    for (int bit = 1; bit < power; bit *= 2) step_++;
    return receive(index_ + 1, data);
  }
  if (has_extra) {
    if (Status status = receive(index_ - 1, other_.data()); status != Status::done) return status;
    combine(index_ - 1);
  } else {
    step_++;
  }
  const int place = has_extra ? index_ / 2 : index_ - extra;
  for (int bit = 1; bit < power; bit *= 2) {
    const int other = place ^ bit, partner = other < extra ? 2 * other + 1 : other + extra;
    Flow flow;
    flow.flags = flag::doubles;
    flow.to = flow.from = partner;
    flow.out = {{data, bytes}};
    flow.in = {{other_.data(), bytes}};
    flow.ready = bytes;
    if (Status status = run(flow, patience); status != Status::done) return status;
    combine(partner);
  }
  return has_extra ? send(index_ - 1) : Status::done;
}

// The first way around the ring: N-1 steps, n bytes less this member's part.
Status TcpTransport::reducescatter(char* data, const std::vector<size_t>& counts, DType dtype, Op op,
                                   const Patience& patience) {
  call_++;
  step_ = 0;
  if (size_ == 1) return Status::done;
  std::vector<size_t> starts(1);
  for (size_t count : counts) starts.push_back(starts.back() + count * element_bytes(dtype));
  return ring(data, starts, index_ - 1, size_ - 1, size_ - 1, dtype, op, patience);
}

// The second way around the ring: N-1 steps, n bytes less the right neighbor's part.
Status TcpTransport::allgather(char* data, const std::vector<size_t>& bytes, const Patience& patience) {
  call_++;
  step_ = 0;
  if (size_ == 1) return Status::done;
  std::vector<size_t> starts(1);
  for (size_t each : bytes) starts.push_back(starts.back() + each);
  return ring(data, starts, index_, 0, size_ - 1, DType::uint8, Op::sum, patience);
}

// Small: a binomial tree, log2 N steps, the root sends n·log2 N bytes. Large: a chain from the root, in which each member
// forwards what it receives piece by piece; n bytes, and the last member gets each piece N-2 pieces after the second one.
Status TcpTransport::broadcast(char* data, size_t bytes, int root, const Patience& patience) {
  call_++;
  step_ = 0;
  if (size_ == 1 || bytes == 0) return Status::done;
  const int place = (index_ - root + size_) % size_;
  auto member = [&](int p) { return (p + root) % size_; };
  if (size_ > 2 && bytes <= tree_bytes) {
    int bit = 1;
    while (bit < size_) bit *= 2;
    for (bit /= 2; bit > 0; bit /= 2) {  // a multiple of 2·bit has the data and sends it `bit` places further
      Flow flow;
      if (place % (2 * bit) == 0 && place + bit < size_) {
        flow.to = member(place + bit);
        flow.out = {{data, bytes}};
        flow.ready = bytes;
      } else if (place % (2 * bit) == bit) {
        flow.from = member(place - bit);
        flow.in = {{data, bytes}};
      }
      if (Status status = run(flow, patience); status != Status::done) return status;
    }
    return Status::done;
  }
  Flow flow;
  if (place + 1 < size_) {
    flow.to = member(place + 1);
    flow.out = {{data, bytes}};
  }
  if (place == 0) {
    flow.ready = bytes;
  } else {
    flow.from = member(place - 1);
    flow.in = {{data, bytes}};
  }
  return run(flow, patience);
}

// In step k each sends to the member k places further and receives from the one k before: N-1 steps, every byte once.
Status TcpTransport::alltoall(const char* in, const std::vector<size_t>& send, char* out, const std::vector<size_t>& receive,
                              const Patience& patience) {
  call_++;
  step_ = 0;
  auto start = [](const std::vector<size_t>& list, int i) {
    return std::accumulate(list.begin(), list.begin() + i, size_t{0});
  };
  const auto own = static_cast<size_t>(index_);
  if (send[own] > 0) std::memcpy(out + start(receive, index_), in + start(send, index_), send[own]);
  for (int k = 1; k < size_; k++) {
    Flow flow;
    flow.to = (index_ + k) % size_;
    flow.from = (index_ - k + size_) % size_;
    flow.out = {{const_cast<char*>(in) + start(send, flow.to), send[static_cast<size_t>(flow.to)]}};
    flow.in = {{out + start(receive, flow.from), receive[static_cast<size_t>(flow.from)]}};
    flow.ready = flow.out[0].bytes;
    if (Status status = run(flow, patience); status != Status::done) return status;
  }
  return Status::done;
}

}  // namespace hvd
