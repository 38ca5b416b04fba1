#include "mesh.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "../group/group.h"

namespace hvd {

namespace {

// How often to ask the kernel whether the peers' kernels have answered; see hear().
constexpr int64_t hear_every_ns = 500'000'000;
// How long to spin before yielding the core. A step takes 3 µs between two cores. If the peer shares this core (several
// "hosts" on one machine), it cannot answer before we yield: with 50 µs here a step took 110 µs, with 2 µs 15 µs (measured).
// Yielding when nobody else wants the core costs a third of a microsecond.
constexpr int64_t spin_ns = 4'000;
// The control block knows the cause better than a closed connection does; it learns from other hosts within this time.
constexpr int64_t cause_ns = 300'000'000;
// The last bytes of a dead member may still be in transit.
constexpr int64_t death_grace_ns = 20'000'000;

void set_option(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

// Errors are ignored: a socket that is not TCP (in tests) has none of these options.
void configure(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 3);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 7);
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Mesh::Mesh(const std::vector<int>& sockets, const std::vector<bool>& accepted, std::vector<int> ranks, int index,
           Control& control, int64_t silence_ns, const Keys& keys)
    : links_(sockets.size()), ranks_(std::move(ranks)), index_(index), control_(control), silence_ns_(silence_ns) {
  // Before a descriptor is open: this may throw.
  for (size_t i = 0; i < keys.size(); i++)
    if (keys[i]) links_[i].sealed = std::make_unique<SealedStream>(*keys[i]);
  for (size_t i = 0; i < sockets.size(); i++) {
    if (sockets[i] < 0) continue;
    Link& link = links_[i];
    link.fd = fcntl(sockets[i], F_DUPFD_CLOEXEC, 0);
    if (link.fd < 0) {
      const int error = errno;
      for (Link& open : links_)
        if (open.fd >= 0) close(open.fd);
      throw std::system_error(error, std::generic_category(), "duplicating a socket");
    }
    configure(link.fd);
    link.ahead = std::make_unique<char[]>(ahead_bytes);
    link.awaits_ready = accepted[i];
    // One byte always fits into an empty socket; if the connection is broken, the first receive reports it.
    const iovec ready{const_cast<char*>(&ready_byte), 1};
    if (!accepted[i]) (void)!write(link, &ready, 1);
  }
  polled_.reserve(links_.size());
}

Mesh::~Mesh() {
  for (Link& link : links_)
    if (link.fd >= 0) close(link.fd);
}

// As sendmsg().
ssize_t Mesh::write(Link& link, const iovec* pieces, int count) {
  if (link.sealed) return link.sealed->send(link.fd, pieces, count);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = static_cast<size_t>(count);
  return sendmsg(link.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t Mesh::read(Link& link, void* to, size_t bytes) {
  if (link.ended) return -1;
  const ssize_t got = link.sealed ? link.sealed->receive(link.fd, to, bytes) : recv(link.fd, to, bytes, MSG_DONTWAIT);
  if (got > 0) return got;
  if (got < 0 && would_block(errno)) return 0;
  link.ended = true;
  link.error = got < 0 ? errno : 0;
  return -1;
}

// True once the other side is ready.
bool Mesh::await_ready(Link& link) {
  char byte;
  const ssize_t got = read(link, &byte, 1);
  if (got == 1 && byte != ready_byte) {
    link.ended = true;
    link.error = EPROTO;
  }
  link.awaits_ready = got != 1;
  return got == 1 && !link.ended;
}

ssize_t Mesh::send_some(int peer, const iovec* pieces, int count) {
  Link& link = this->link(peer);
  if (link.awaits_ready && !await_ready(link)) return link.ended ? -1 : 0;
  const ssize_t sent = write(link, pieces, count);
  if (sent >= 0) return sent;
  if (would_block(errno) || errno == ENOBUFS) return 0;
  link.error = errno;
  return -1;
}

ssize_t Mesh::receive_some(int peer, void* to, size_t bytes) {
  Link& link = this->link(peer);
  if (link.begin < link.end) {
    const size_t taken = std::min(bytes, link.end - link.begin);
    std::memcpy(to, link.ahead.get() + link.begin, taken);
    link.begin += taken;
    return static_cast<ssize_t>(taken);
  }
  if (link.awaits_ready && !await_ready(link)) return link.ended ? -1 : 0;
  return read(link, to, bytes);
}

int Mesh::receive_header(int peer, Header& header) {
  Link& link = this->link(peer);
  if (link.end - link.begin < sizeof header) {
    if (link.awaits_ready && !await_ready(link)) return link.ended ? -1 : 0;
    if (link.begin > 0) {
      std::memmove(link.ahead.get(), link.ahead.get() + link.begin, link.end - link.begin);
      link.end -= link.begin;
      link.begin = 0;
    }
    const ssize_t got = read(link, link.ahead.get() + link.end, ahead_bytes - link.end);
    if (got < 0) return -1;
    link.end += static_cast<size_t>(got);
    if (link.end < sizeof header) return 0;
  }
  std::memcpy(&header, link.ahead.get() + link.begin, sizeof header);
  link.begin += sizeof header;
  return 1;
}

void Mesh::want_nothing() {
  for (Link& link : links_) link.wants = 0;
}

void Mesh::sleep(int64_t timeout_ns) {
  polled_.clear();
  for (Link& link : links_) {
    if (link.fd < 0 || link.wants == 0) continue;
    polled_.push_back({link.fd, link.awaits_ready ? static_cast<short>(POLLIN) : link.wants, 0});
  }
  timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  ppoll(polled_.data(), polled_.size(), &timeout, nullptr);
}

void Mesh::nap(int64_t timeout_ns) const {
  std::vector<pollfd> inputs;
  for (const Link& link : links_)
    if (link.fd >= 0) inputs.push_back({link.fd, POLLIN, 0});
  timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  ppoll(inputs.data(), inputs.size(), &timeout, nullptr);
}

// NOTE [Silence]. A host that is cut off acknowledges nothing, and the kernel would retry for a quarter of an hour.
// TCP_USER_TIMEOUT ends that earlier, but it also ends connections whose healthy peer does not read for that long (its
// window is closed: a member that was stopped, or is at an earlier step of a long alltoall). So a peer counts as silent if
// data is in transit, or a closed window was probed, and no acknowledgement at all has arrived for the whole time. Keepalive
// covers the case that nothing is in transit.
int Mesh::hear() {
  const int64_t now = monotonic_ns();
  if (now - heard_at_ < hear_every_ns) return -1;
  const bool was_away = now - heard_at_ > 4 * hear_every_ns;  // silence counts only while we check
  heard_at_ = now;
  for (int i = 0; i < size(); i++) {
    Link& link = this->link(i);
    tcp_info info{};
    socklen_t length = sizeof info;
    if (link.fd < 0 || getsockopt(link.fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) continue;
    const bool waits = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
    const int64_t since_answer = int64_t{info.tcpi_last_ack_recv} * 1'000'000;
    if (!waits || was_away || link.silent_since == 0 || since_answer < now - link.silent_since)
      link.silent_since = waits ? now : 0;
    else if (now - link.silent_since >= silence_ns_) {
      link.ended = true;
      link.error = ETIMEDOUT;
      return i;
    }
  }
  return -1;
}

Status Mesh::check() {
  if (stopping()) return Status::stopped;
  if (control_.failed()) return Status::failed;
  if (const int silent = hear(); silent >= 0) return broken(silent);
  // A member that has left does not end the wait: it may have finished what the others are still doing. Its connection ends
  // when all its bytes have been read.
  for (int i = 0; i < size(); i++) {
    if (i == index_ || control_.presence(ranks_[static_cast<size_t>(i)]) != Control::Presence::dead) continue;
    const int64_t now = monotonic_ns();
    if (death_seen_at_ == 0) death_seen_at_ = now;
    if (now - death_seen_at_ < death_grace_ns) break;
    culprit_ = i;
    errno_ = 0;
    return Status::peer_lost;
  }
  return Status::done;
}

Status Mesh::idle(const Patience& patience, Wait& wait, int waiting_for) {
  const int64_t now = monotonic_ns();
  if (wait.idle_since == 0) {
    wait.idle_since = now;
    return Status::done;
  }
  const int64_t idle = now - wait.idle_since, spinning = patience.spins > 0 ? spin_ns : 0;
  if (idle < spinning) {
    relax();
    return Status::done;
  }
  if (idle < spinning + patience.yield_ns) {
    sched_yield();
    return Status::done;
  }
  if (Status status = check(); status != Status::done) return status;
  if (wait.waiting_since == 0) {
    wait.waiting_since = now;
    wait.next_stall = now + patience.stall_ns;
  }
  if (now - wait.waiting_since >= patience.timeout_ns) {
    culprit_ = waiting_for;
    errno_ = 0;
    return Status::timeout;
  }
  if (wait.may_stall && patience.stall_ns > 0 && now >= wait.next_stall) {
    wait.next_stall = now + patience.stall_ns;
    return Status::stalled;
  }
  sleep(1'000'000);
  return Status::done;
}

Status Mesh::broken(int peer) {
  Link& link = this->link(peer);
  culprit_ = peer;
  errno_ = link.error;
  if (link.error == EPROTO || link.error == EBADMSG) return Status::system_error;
  for (const int64_t until = monotonic_ns() + cause_ns; monotonic_ns() < until; usleep(1000)) {
    if (stopping()) return Status::stopped;
    if (control_.failed()) return Status::failed;
    const Control::Presence presence = control_.presence(ranks_[static_cast<size_t>(peer)]);
    if (presence == Control::Presence::left) return Status::peer_left;
    if (presence == Control::Presence::dead) return Status::peer_lost;
  }
  return Status::peer_lost;
}

Status Mesh::protocol_error(int peer) {
  link(peer).ended = true;
  link(peer).error = EPROTO;
  culprit_ = peer;
  errno_ = EPROTO;
  return Status::system_error;
}

}  // namespace hvd
