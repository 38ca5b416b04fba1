// The sockets between a group's members: non-blocking sends and receives, and how a thread waits for them. One thread at
// a time uses it, for all peers at once: a member sends while it receives.
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "../group/control.h"
#include "../group/operation.h"
#include "frame.h"
#include "sealed-stream.h"

namespace hvd {

// One wait; call moved() whenever there was progress.
struct Wait {
  int64_t idle_since = 0;     // nothing has moved since; 0: something just has
  int64_t waiting_since = 0;  // the deadline counts from here; 0: not asleep yet
  int64_t next_stall = 0;
  bool may_stall = false;
  void moved() { idle_since = 0; }
};

class Mesh {
 public:
  // `sockets[i]` is connected with member i (-1 for this member) and is duplicated. `accepted[i]`: the ready byte is read from
  // it rather than written. `silence_ns`: a peer whose kernel does not answer for this long is gone. `keys[i]`: all bytes of that
  // connection are encrypted; without any keys, none are.
  using Keys = std::vector<std::optional<SealedStream::Keys>>;
  static constexpr int64_t default_silence_ns = 10'000'000'000;
  Mesh(const std::vector<int>& sockets, const std::vector<bool>& accepted, std::vector<int> ranks, int index,
       Control& control, int64_t silence_ns = default_silence_ns, const Keys& keys = {});
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int size() const { return static_cast<int>(links_.size()); }
  int index() const { return index_; }

  // The number of bytes sent; 0 if none could be: then the next call has to offer the same bytes, or the same and more; -1:
  // call broken(). `pieces` are not changed.
  ssize_t send_some(int peer, const iovec* pieces, int count);
  ssize_t send_some(int peer, const void* data, size_t bytes) {
    iovec piece{const_cast<void*>(data), bytes};
    return send_some(peer, &piece, 1);
  }
  // The number of bytes received; 0 if none have arrived; -1: call broken().
  ssize_t receive_some(int peer, void* to, size_t bytes);
  // 1: received, 0: not yet, -1: call broken(). Reads a little ahead, into a buffer that receive_some() empties first.
  int receive_header(int peer, Header& header);

  // What the next idle() waits for.
  void want(int peer, bool input, bool output) {
    link(peer).wants = static_cast<short>((input ? POLLIN : 0) | (output ? POLLOUT : 0));
  }
  void want_nothing();

  // When there was no progress: spins, yields or sleeps (one millisecond at most). Any status but `done` ends the wait.
  // `waiting_for`: the culprit of a timeout.
  Status idle(const Patience& patience, Wait& wait, int waiting_for);
  void sleep(int64_t timeout_ns);  // until something wanted can be done, or the timeout
  // Sleeps until anything arrives from a peer, or the timeout. Any thread: it changes nothing.
  void nap(int64_t timeout_ns) const;
  Status check();  // stopped, failed or a dead peer, without waiting

  // After -1: what happened to the peer. May take some 300 ms, until the control block has learned the cause.
  Status broken(int peer);
  Status protocol_error(int peer);

  void stop() { stop_.store(true, std::memory_order_release); }
  bool stopping() const { return stop_.load(std::memory_order_acquire); }
  bool failed() const { return control_.failed(); }
  int culprit() const { return culprit_; }
  int errno_value() const { return errno_; }

 private:
  static constexpr size_t ahead_bytes = 4096 + sizeof(Header);
  struct Link {
    int fd = -1;
    short wants = 0;
    bool awaits_ready = false;
    bool ended = false;
    int error = 0;
    int64_t silent_since = 0;  // see NOTE [Silence]
    size_t begin = 0, end = 0;  // of what lies in `ahead`
    std::unique_ptr<char[]> ahead;
    std::unique_ptr<SealedStream> sealed;  // null: the bytes travel as they are
  };
  Link& link(int peer) { return links_[static_cast<size_t>(peer)]; }
  const Link& link(int peer) const { return links_[static_cast<size_t>(peer)]; }
  static ssize_t write(Link& link, const iovec* pieces, int count);
  ssize_t read(Link& link, void* to, size_t bytes);
  bool await_ready(Link& link);
  int hear();  // a peer that has been silent for too long, or -1

  std::vector<Link> links_;
  std::vector<int> ranks_;
  int index_;
  Control& control_;
  const int64_t silence_ns_;
  int64_t heard_at_ = 0;
  std::atomic<bool> stop_{false};
  int culprit_ = -1;
  int errno_ = 0;
  int64_t death_seen_at_ = 0;
  std::vector<pollfd> polled_;
};

}  // namespace hvd
