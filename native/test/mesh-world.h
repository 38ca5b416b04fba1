// Several members of a CrossGroup in one process, a thread each, connected by sockets: pairs of them, or TCP over loopback.
#pragma once

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "cross/cross-group.h"
#include "tcp/tcp-transport.h"
#include "world.h"

namespace world {

enum class Wire { pair, tcp };

// Two connected sockets: the first as if it had connected, the second as if it had accepted.
inline std::pair<int, int> connect_two(Wire wire) {
  if (wire == Wire::pair) {
    int two[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two), 0);
    return {two[0], two[1]};
  }
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  CHECK_EQ(listen(listener, 1), 0);
  socklen_t length = sizeof address;
  CHECK_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  int first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_EQ(connect(first, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  int second = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  CHECK(second >= 0);
  close(listener);
  return {first, second};
}

// The library that Node carries: here it has to be installed (Debian, Ubuntu: the package openssl).
inline void load_libcrypto() {
  static void* const library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) check::fail(__FILE__, __LINE__, dlerror());
}

// Keys of member `from` for its connection with `to`.
inline hvd::SealedStream::Keys keys_between(int from, int to) {
  load_libcrypto();
  hvd::SealedStream::Keys keys;
  keys.send.fill(static_cast<char>(16 * from + to));
  keys.receive.fill(static_cast<char>(16 * to + from));
  return keys;
}

// The descriptors of a full mesh; [i][j] is member i's socket to member j.
class Wires {
 public:
  Wires(int count, Wire wire) : sockets(static_cast<size_t>(count), std::vector<int>(static_cast<size_t>(count), -1)) {
    for (size_t i = 0; i < sockets.size(); i++)
      for (size_t j = i + 1; j < sockets.size(); j++) std::tie(sockets[i][j], sockets[j][i]) = connect_two(wire);
  }
  ~Wires() {
    for (int i = 0; i < static_cast<int>(sockets.size()); i++) close_of(i);
  }
  void close_of(int member) {
    for (int& fd : sockets[static_cast<size_t>(member)]) {
      if (fd >= 0) close(fd);
      fd = -1;
    }
  }
  // `ranks`: of the members; 0, 1, … unless given.
  std::shared_ptr<hvd::Mesh> mesh(int index, hvd::Control& control, std::vector<int> ranks = {},
                                  int64_t silence_ns = 10 * second_ns) const {
    std::vector<bool> accepted;
    hvd::Mesh::Keys keys(is_encrypted ? sockets.size() : 0);
    for (int i = 0; i < static_cast<int>(keys.size()); i++)
      if (i != index) keys[static_cast<size_t>(i)] = keys_between(index, i);
    for (int i = 0; i < static_cast<int>(sockets.size()); i++) {
      if (ranks.size() < sockets.size()) ranks.push_back(i);
      accepted.push_back(i < index);
    }
    return std::make_shared<hvd::Mesh>(sockets[static_cast<size_t>(index)], accepted, ranks, index, control,
                                       silence_ns, keys);
  }
  bool is_encrypted = false;
  std::vector<std::vector<int>> sockets;
};

struct Crossing {
  Block block;
  Wires wires;
  std::vector<std::unique_ptr<hvd::Control>> controls;
  std::vector<std::unique_ptr<hvd::CrossGroup>> groups;

  // `carried`: most bytes that come with a post; -1: as in life.
  explicit Crossing(int count, long carried = -1, Wire wire = Wire::pair, bool is_encrypted = false)
      : block(count), wires(count, wire) {
    wires.is_encrypted = is_encrypted;
    const size_t most = carried < 0 ? hvd::CrossGroup::default_carried_bytes(count) : static_cast<size_t>(carried);
    for (int i = 0; i < count; i++) controls.push_back(std::make_unique<hvd::Control>(block.fd(), i, count));
    for (int i = 0; i < count; i++) {
      auto mesh = wires.mesh(i, *controls[static_cast<size_t>(i)]);
      groups.push_back(std::make_unique<hvd::CrossGroup>(mesh, std::make_shared<hvd::TcpTransport>(mesh), most));
      wires.close_of(i);  // the mesh has its own
    }
  }
  // Nobody looks at anybody any more: an end is no loss.
  ~Crossing() {
    for (int i = 0; i < size(); i++) block.leave(i);
    groups.clear();
  }
  int size() const { return static_cast<int>(controls.size()); }
  hvd::CrossGroup& group(int i) { return *groups[static_cast<size_t>(i)]; }

  void together(const std::function<void(int)>& part) { world::together(size(), part); }
};

}  // namespace world
