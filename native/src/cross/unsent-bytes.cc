#include "unsent-bytes.h"

#include <dirent.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "../group/futex.h"

namespace hvd {

namespace {

// 0: no socket.
ino_t inode_of(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

bool is_connection(int fd) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof(peer);
  int type = 0;
  socklen_t type_bytes = sizeof(type);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 && type == SOCK_STREAM &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
         (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

bool has_arrived(const Connection& connection) {
  if (inode_of(connection.fd) != connection.inode) return true;
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  if (getsockopt(connection.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_state == TCP_CLOSE) return true;
  int waiting = 0;
  return ioctl(connection.fd, SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

}  // namespace

std::vector<Connection> open_connections(const std::vector<Connection>& known) {
  std::vector<Connection> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const int fd = std::atoi(entry->d_name);
    const Connection connection{fd, inode_of(fd)};
    if (connection.inode == 0 || std::find(known.begin(), known.end(), connection) != known.end()) continue;
    if (is_connection(fd)) found.push_back(connection);
  }
  return found;
}

bool wait_until_arrived(const std::vector<Connection>& connections, int64_t timeout_ns) {
  const int64_t until = monotonic_ns() + timeout_ns;
  while (!std::all_of(connections.begin(), connections.end(), has_arrived)) {
    if (monotonic_ns() >= until) return false;
    usleep(500);
  }
  return true;
}

}  // namespace hvd
