#include "peer-memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "../group/touch.h"

namespace hvd {

namespace {

// `transfer` is called as process_vm_readv is.
template <class Transfer>
int transfer_all(const Transfer& transfer, pid_t pid, uint64_t address, char* local, size_t bytes) {
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

template <class Transfer>
int transfer_pieces(const Transfer& transfer, pid_t pid, const std::vector<PeerMemory::Piece>& pieces) {
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

bool PeerMemory::reach(int member, uint64_t bytes) {
  const Member& peer = members_[member];
  std::shared_ptr<PeerArena>& arena = arenas_[static_cast<size_t>(member)];
  if (!arena)
    arena = known_ ? known_->open(peer.pid, peer.arena_fd, peer.arena_id)
                   : std::make_shared<PeerArena>(peer.pid, peer.arena_fd, peer.arena_id);
  return arena->reach(bytes);
}

int PeerMemory::read(int member, uint64_t address, void* to, size_t bytes) {
  if (bytes == 0) return 0;
  if (address & arena_bit) {
    std::memcpy(to, arena_pointer(member, address), bytes);
    return 0;
  }
  return transfer_all(process_vm_readv, members_[member].pid, address, static_cast<char*>(to), bytes);
}

int PeerMemory::read_pieces(int member, const std::vector<Piece>& pieces) {
  return transfer_pieces(process_vm_readv, members_[member].pid, pieces);
}

int PeerMemory::write_pieces(int member, const std::vector<Piece>& pieces, const Control& control) {
  auto write = [&](pid_t pid, const iovec* mine, unsigned long mine_count, const iovec* theirs, unsigned long theirs_count,
                   unsigned long flags) -> ssize_t {
    const Touch touch(control, members_[member].gone);
    if (touch) return process_vm_writev(pid, mine, mine_count, theirs, theirs_count, flags);
    errno = ECANCELED;
    return -1;
  };
  return transfer_pieces(write, members_[member].pid, pieces);
}

}  // namespace hvd
