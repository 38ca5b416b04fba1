// A group whose members are connected by sockets. Each member posts what it wants to all others (see frame.h), together
// with the data if that is small. A cross transport moves larger data.
//
// NOTE [One step]. In a round every member posts to every other one: N-1 frames sent and received, all at the same time.
// That is the fastest way for the few members a group has across hosts, every member knows who is missing, and values
// that come with posts are combined in index order. Larger data follows when all have agreed.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "../group/control.h"
#include "../group/group.h"
#include "cross-transport.h"
#include "mesh.h"

namespace hvd {

class CrossGroup final : public Group {
 public:
  // The maximum payload of a post in a group of that size: what a socket accepts before the peer reads (a window of 64 KiB),
  // since a peer may arrive much later; and not much more traffic than an algorithm for larger data causes.
  static size_t default_carried_bytes(int members) {
    return members <= 2 ? 32 * 1024 : 64 * 1024 / static_cast<size_t>(members);
  }

  // `transport` may use the mesh.
  CrossGroup(std::shared_ptr<Mesh> mesh, std::shared_ptr<CrossTransport> transport, size_t carried_bytes);

  void start(const Operation& operation) override;
  Status arrive(const Patience& patience) override;
  Status execute(Operation& operation, const Patience& patience) override;
  Status check_idle() override;
  bool anyone_started() override;
  bool everyone_arrived() override;
  void nap(int64_t timeout_ns) override;
  std::vector<int> missing() const override;
  void stop() override;

  CrossTransport& transport() { return *transport_; }
  void set_switch_bytes(size_t bytes) override { transport_->set_switch_bytes(bytes); }
  size_t carried_bytes() const { return carried_bytes_; }

 private:
  // What is sent to and received from one peer in a round.
  struct Exchange {
    Header sent_header;
    const char* data = nullptr;  // to be sent after the header
    size_t sent = 0, to_send = 0;
    Header post;
    bool has_post = false;
    size_t received = 0;
    std::vector<char> carried;
    std::atomic<uint64_t> posted{0};  // last round seen; missing() reads it
    bool is_sent() const { return sent == to_send; }
    bool has_all() const { return has_post && (!(post.flags & flag::carries) || received == post.bytes); }
  };
  Exchange& peer(int i) { return exchanges_[static_cast<size_t>(i)]; }

  void post_to(int i, const char* data, size_t bytes, bool carries, uint64_t fingerprint);
  bool push(int i);  // true if something moved, as in pull(). broken_ records a broken connection.
  bool pull(int i);
  bool progress();
  bool is_complete() const;
  void end_round();
  Status report(Status status);            // with the mesh's culprit
  Status transport_report(Status status);  // with the transport's culprit

  bool everyone_carries() const;
  bool has_sizes(const Operation& operation);
  const char* carried_by(int i) const { return exchanges_[static_cast<size_t>(i)].carried.data(); }
  Status allreduce(Operation&, const Patience&);
  Status reducescatter(Operation&, const Patience&);
  Status allgather(Operation&, const Patience&);
  Status broadcast(Operation&, const Patience&);
  Status alltoall(Operation&, const Patience&);
  void reserve(size_t bytes) {
    if (scratch_.size() < bytes) scratch_.resize(bytes);
  }

  std::shared_ptr<Mesh> mesh_;
  std::shared_ptr<CrossTransport> transport_;
  const size_t carried_bytes_;
  std::vector<Exchange> exchanges_;
  std::vector<char> packed_;   // what posts carry, if it does not lie in one piece
  std::vector<char> scratch_;  // for the transport
  std::vector<const void*> sources_;
  std::atomic<uint64_t> round_{1};  // the round to come, or under way
  bool own_carries_ = false;
  const char* own_data_ = nullptr;  // what our posts carry, in one piece
  uint64_t fingerprint_ = 0;
  Wait wait_;
  int broken_ = -1;  // peer whose connection has ended, or that sent something invalid
};

}  // namespace hvd
