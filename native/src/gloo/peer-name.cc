// NOTE [Connections that are reset while gloo opens them]. When gloo's thread has made a connection, it asks for the address of the
// other side. If that side has given up in the meantime and reset the connection, getpeername() fails, and libgloo up to 2023 throws
// on its own thread, where nobody can catch it: the process ends. So libgloo gets this function in place of the C library's: it
// answers such a question with an empty address. The next read or write then fails as on any broken connection, and opening the
// group ends with an error. libgloo finds this function first because the addon is loaded with RTLD_DEEPBIND
// (src/transport/native/load.ts).
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

extern "C" __attribute__((visibility("default"))) int getpeername(int fd, sockaddr* address, socklen_t* bytes) noexcept {
  if (syscall(SYS_getpeername, fd, address, bytes) == 0) return 0;
  if (errno != ENOTCONN) return -1;
  sockaddr_in nobody{};
  nobody.sin_family = AF_INET;
  std::memcpy(address, &nobody, std::min<size_t>(*bytes, sizeof(nobody)));
  *bytes = sizeof(nobody);
  return 0;
}
