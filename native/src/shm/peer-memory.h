// Reads and writes the memory of other members: arena memory through a mapping, other memory with
// process_vm_readv/writev if the kernel allows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../group/control.h"
#include "layout.h"
#include "peer-arena.h"

namespace hvd {

class PeerMemory {
 public:
  // `known`: where other groups find the same arenas.
  PeerMemory(Member* members, int size, int index, PeerArenas* known)
      : members_(members), index_(index), known_(known), arenas_(static_cast<size_t>(size)) {}
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Whether the probe word of every other member can be read.
  bool probe() const;

  // Maps the first `bytes` bytes of a member's arena; false if that is impossible.
  bool reach(int member, uint64_t bytes);
  // The address in this process of a member's arena memory, which must have been reached.
  char* arena_pointer(int member, uint64_t address) const {
    return arenas_[static_cast<size_t>(member)]->at(address & ~arena_bit);
  }

  // Returns 0 or an errno. `address` as in TableEntry.
  int read(int member, uint64_t address, void* to, size_t bytes);

  // Several pieces in one system call; all of them ordinary memory. Local and remote pieces pair up.
  struct Piece {
    uint64_t address;
    char* local;
    size_t bytes;
  };
  int read_pieces(int member, const std::vector<Piece>& pieces);
  // Each system call is a touch; ECANCELED if the member's memory must not be written to any more.
  int write_pieces(int member, const std::vector<Piece>& pieces, const Control& control);

 private:
  Member* members_;
  int index_;
  PeerArenas* known_;
  std::vector<std::shared_ptr<PeerArena>> arenas_;  // by member, opened when first needed
};

}  // namespace hvd
