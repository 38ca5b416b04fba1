// Reads and writes the memory of other members: alloc() memory through a mapping, other memory with
// process_vm_readv/writev if the kernel allows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layout.h"

namespace hvd {

class PeerMemory {
 public:
  PeerMemory(Member* members, int size, int index) : members_(members), index_(index), arenas_(static_cast<size_t>(size)) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Whether the probe word of every other member can be read.
  bool probe() const;

  // The address in this process of a member's arena memory; nullptr if it cannot be mapped.
  char* arena_pointer(int member, uint64_t address);

  // Both return 0 or an errno. `address` as in TableEntry.
  int read(int member, uint64_t address, void* to, size_t bytes);
  int write(int member, uint64_t address, const void* from, size_t bytes);

  // Several pieces in one system call; all of them ordinary memory. Local and remote pieces pair up.
  struct Piece {
    uint64_t address;
    char* local;
    size_t bytes;
  };
  int read_pieces(int member, const std::vector<Piece>& pieces);
  int write_pieces(int member, const std::vector<Piece>& pieces);

 private:
  Member* members_;
  int index_;
  struct Mapping {
    char* base = nullptr;
    size_t bytes = 0;
  };
  std::vector<Mapping> arenas_;  // by member, mapped when first needed
};

}  // namespace hvd
