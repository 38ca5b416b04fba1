// Memory that the other ranks of this host can map: the blocks of alloc(), and adopted memory. Each process has one
// sparse memory file, of which it maps *regions* as they are needed; pages are reserved when a block is allocated (so a lack
// of memory is an error there and never SIGBUS) and returned when it is freed.
//
// Adopted memory keeps its address, but its pages become those of the file: a *window* of the file is mapped over it. So the
// other ranks reach the heap of a WebAssembly module, where TensorFlow.js keeps its tensors, without a copy.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "peer-arena.h"

namespace hvd {

class Arena {
 public:
  Arena();  // throws std::system_error
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Zeroed memory, page aligned; nullptr if there is no memory or no address space left.
  void* allocate(size_t bytes);
  void release(void* block);
  // The block that contains this memory is never used again: release() leaves it as it is. False if no block contains it.
  bool retire(const void* pointer);

  // Adopts whole pages of writable private memory. Called again with more bytes at the same address (memory that has grown)
  // it adopts the rest. False if that is impossible: then nothing has changed. The memory must not be unmapped while the
  // arena is used, and no thread may write to it during the call.
  bool adopt(void* memory, size_t bytes);

  bool contains(const void* pointer, size_t bytes) const { return offset_of(pointer, bytes) != outside; }
  // The place of this memory in the file; `outside` if not all of it is in the arena. Any thread.
  static constexpr uint64_t outside = ~uint64_t{0};
  uint64_t offset_of(const void* pointer, size_t bytes) const {
    auto* at = static_cast<const char*>(pointer);
    const size_t count = count_.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; i++) {
      const Extent& extent = extents_[i];
      const size_t length = extent.bytes.load(std::memory_order_acquire);
      if (at < extent.memory || at >= extent.memory + length) continue;
      auto within = static_cast<size_t>(at - extent.memory);
      return bytes <= length - within ? extent.offset + within : outside;
    }
    return outside;
  }
  int fd() const { return fd_; }
  // Tells this arena from others of this machine.
  uint64_t id() const { return id_; }
  // Blocks of at most this many bytes altogether.
  size_t capacity() const { return capacity_; }
  // Everything that others may reach lies in this many bytes from the beginning of the file. Never decreases; any thread.
  uint64_t used_end() const { return used_end_.load(std::memory_order_acquire); }

  // The arenas of other ranks, each mapped once for all groups of this process.
  PeerArenas& peers() { return peers_; }

 private:
  // A region or window. Extents are only added, and only windows grow.
  struct Extent {
    char* memory = nullptr;
    size_t offset = 0;
    std::atomic<size_t> bytes{0};
    size_t reserved = 0;  // of the file, for growing
    bool is_window = false;
  };

  // All under the mutex.
  size_t take_space(size_t bytes);  // free space in a region; `outside` if there is none
  void give_space(size_t offset, size_t bytes);
  bool add_region(size_t bytes);
  void add_extent(char* memory, size_t offset, size_t bytes, size_t reserved, bool is_window);
  const Extent& region_at(size_t offset) const;
  void used_until(uint64_t end);

  size_t capacity_ = 0;
  int fd_ = -1;
  uint64_t id_ = 0;
  std::mutex mutex_;
  std::map<size_t, size_t> free_;  // offset → bytes, neighbours in the same region merged
  std::map<size_t, size_t> used_;
  std::map<size_t, size_t> retired_;
  size_t used_bytes_ = 0;
  size_t region_bytes_ = 0;
  size_t file_end_ = 0;  // what follows belongs to no extent
  std::atomic<uint64_t> used_end_{0};
  std::array<Extent, 64> extents_;  // regions double in size, so there are few
  std::atomic<size_t> count_{0};
  PeerArenas peers_;
};

}  // namespace hvd
