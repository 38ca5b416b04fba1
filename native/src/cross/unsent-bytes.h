// Connections of this process that a library has made, and whether all that it has written to them has arrived. Libraries such
// as gloo do not give out their sockets, and close them in a way that discards what the other side has not acknowledged yet: if
// a packet was lost just then, the other side waits for it in vain.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace hvd {

// A descriptor may be closed and reused; the inode tells.
struct Connection {
  int fd;
  ino_t inode;
  bool operator==(const Connection&) const = default;
};

// The TCP connections that this process has now, except `known` ones.
std::vector<Connection> open_connections(const std::vector<Connection>& known = {});

// Waits until the other sides have acknowledged everything. False: not within this time. Connections that are closed, or have
// failed, have nothing to wait for.
bool wait_until_arrived(const std::vector<Connection>& connections, int64_t timeout_ns);

}  // namespace hvd
