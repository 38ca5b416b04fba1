#include "peer-memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace hvd {

namespace {

using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

int transfer_all(Transfer transfer, pid_t pid, uint64_t address, char* local, size_t bytes) {
  while (bytes > 0) {
    iovec mine{local, bytes}, theirs{reinterpret_cast<void*>(address), bytes};
    ssize_t moved = transfer(pid, &mine, 1, &theirs, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errno;
    if (moved == 0) return EFAULT;
    local += moved;
    address += static_cast<uint64_t>(moved);
    bytes -= static_cast<size_t>(moved);
  }
  return 0;
}

int transfer_pieces(Transfer transfer, pid_t pid, const std::vector<PeerMemory::Piece>& pieces) {
  constexpr size_t max_pieces = 64;
  iovec mine[max_pieces], theirs[max_pieces];
  for (size_t start = 0; start < pieces.size();) {
    size_t count = 0, bytes = 0;
    for (; start + count < pieces.size() && count < max_pieces; count++) {
      const auto& piece = pieces[start + count];
      mine[count] = {piece.local, piece.bytes};
      theirs[count] = {reinterpret_cast<void*>(piece.address), piece.bytes};
      bytes += piece.bytes;
    }
    ssize_t moved = transfer(pid, mine, count, theirs, count, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errno;
    if (static_cast<size_t>(moved) != bytes)  // rare: finish piece by piece
      for (size_t i = 0; i < count; i++)
        if (int error = transfer_all(transfer, pid, pieces[start + i].address, pieces[start + i].local,
                                     pieces[start + i].bytes))
          return error;
    start += count;
  }
  return 0;
}

}  // namespace

PeerMemory::~PeerMemory() {
  for (const Mapping& arena : arenas_)  // the members' blocks may be unmapped by now
    if (arena.base) munmap(arena.base, arena.bytes);
}

bool PeerMemory::probe() const {
  for (int i = 0; i < static_cast<int>(arenas_.size()); i++) {
    if (i == index_) continue;
    uint64_t value = 0;
    if (transfer_all(process_vm_readv, members_[i].pid, members_[i].probe_address, reinterpret_cast<char*>(&value),
                     sizeof value) != 0 ||
        value != probe_value)
      return false;
  }
  return true;
}

char* PeerMemory::arena_pointer(int member, uint64_t address) {
  Mapping& arena = arenas_[static_cast<size_t>(member)];
  if (!arena.base) {
    const Member& peer = members_[member];
    if (peer.arena_fd < 0) return nullptr;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", peer.pid, peer.arena_fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* mapped = mmap(nullptr, peer.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED) return nullptr;
    arena = {static_cast<char*>(mapped), peer.arena_bytes};
  }
  return arena.base + (address & ~arena_bit);
}

int PeerMemory::read(int member, uint64_t address, void* to, size_t bytes) {
  if (bytes == 0) return 0;
  if (address & arena_bit) {
    const char* from = arena_pointer(member, address);
    if (!from) return errno;
    std::memcpy(to, from, bytes);
    return 0;
  }
  return transfer_all(process_vm_readv, members_[member].pid, address, static_cast<char*>(to), bytes);
}

int PeerMemory::write(int member, uint64_t address, const void* from, size_t bytes) {
  if (bytes == 0) return 0;
  if (address & arena_bit) {
    char* to = arena_pointer(member, address);
    if (!to) return errno;
    std::memcpy(to, from, bytes);
    return 0;
  }
  return transfer_all(process_vm_writev, members_[member].pid, address,
                      const_cast<char*>(static_cast<const char*>(from)), bytes);
}

int PeerMemory::read_pieces(int member, const std::vector<Piece>& pieces) {
  return transfer_pieces(process_vm_readv, members_[member].pid, pieces);
}

int PeerMemory::write_pieces(int member, const std::vector<Piece>& pieces) {
  return transfer_pieces(process_vm_writev, members_[member].pid, pieces);
}

}  // namespace hvd
