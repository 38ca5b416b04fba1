// Connections that somebody else has made: which are new, and whether what was written to them has arrived.

#include "cross/unsent-bytes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "check.h"

using namespace hvd;

namespace {

// Two ends of a TCP connection, with small buffers.
struct Line {
  int near = -1, far = -1;
  Line() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    const int small = 4096;
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    CHECK_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), bytes), 0);
    CHECK_EQ(listen(listener, 1), 0);
    CHECK_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    near = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(near, reinterpret_cast<sockaddr*>(&address), bytes), 0);
    far = accept(listener, nullptr, nullptr);
    CHECK(far >= 0);
    close(listener);
  }
  ~Line() {
    close(near);
    close(far);
  }
};

constexpr int64_t second_ns = 1'000'000'000;

}  // namespace

TEST("connections that were made since are found, other descriptors are not") {
  const Line old;
  const auto before = open_connections();
  int pipes[2];
  CHECK_EQ(pipe(pipes), 0);
  const Line line;
  std::vector<int> found;
  for (const auto& each : open_connections(before)) found.push_back(each.fd);
  CHECK_EQ(found.size(), size_t{2});
  CHECK((found[0] == line.near && found[1] == line.far) || (found[0] == line.far && found[1] == line.near));
  close(pipes[0]);
  close(pipes[1]);
}

TEST("bytes that nobody reads have not arrived; when they are read, they have") {
  const auto before = open_connections();
  const Line line;
  const auto made = open_connections(before);
  CHECK(wait_until_arrived(made, 10 * second_ns));
  // More than both buffers take.
  std::vector<char> bytes(64 << 20);
  const ssize_t written = send(line.near, bytes.data(), bytes.size(), MSG_DONTWAIT);
  CHECK(written > 0);
  CHECK(!wait_until_arrived(made, second_ns / 20));
  for (ssize_t read = 0; read < written;) {
    const ssize_t now = recv(line.far, bytes.data(), bytes.size(), 0);
    CHECK(now > 0);
    read += now;
  }
  CHECK(wait_until_arrived(made, 10 * second_ns));
}

TEST("a connection that is closed, or whose descriptor is another file now, has nothing to wait for") {
  std::vector<Connection> made;
  {
    const auto before = open_connections();
    const Line line;
    made = open_connections(before);
    std::vector<char> bytes(64 << 20);
    CHECK(send(line.near, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0);
    CHECK(!wait_until_arrived(made, 0));
  }
  CHECK(wait_until_arrived(made, 0));
  const Line another;
  CHECK(wait_until_arrived(made, 0));
}
