// Memory that the other ranks of this host can map: the blocks of alloc(), and adopted memory. Each process has one
// sparse memory file; pages are reserved when a block is allocated (so a lack of memory is an error there and
// never SIGBUS) and returned when it is freed.
//
// Adopted memory keeps its address, but its pages become those of the file: a *window* of the file is mapped over it. So the
// other ranks reach the heap of a WebAssembly module, where TensorFlow.js keeps its tensors, without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace hvd {

class Arena {
 public:
  Arena();  // throws std::system_error
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Zeroed memory, page aligned; nullptr if there is none left.
  void* allocate(size_t bytes);
  void release(void* block);

  // Adopts whole pages of writable private memory. Called again with more bytes at the same address (memory that has grown)
  // it adopts the rest. False if that is impossible: then nothing has changed. The memory must not be unmapped while the
  // arena is used, and no thread may write to it during the call.
  bool adopt(void* memory, size_t bytes);

  bool contains(const void* pointer, size_t bytes) const { return find(pointer, bytes) != outside; }
  // Only for memory that the arena contains.
  uint64_t offset_of(const void* pointer) const { return find(pointer, 0); }
  int fd() const { return fd_; }
  size_t capacity() const { return capacity_; }

 private:
  struct Window {
    char* memory;
    size_t bytes;     // adopted so far
    size_t reserved;  // of the file, for growing
    size_t offset;
  };
  static constexpr uint64_t outside = ~uint64_t{0};

  uint64_t find(const void* pointer, size_t bytes) const {
    auto* at = static_cast<const char*>(pointer);
    if (at >= base_ && at < base_ + capacity_) {
      auto offset = static_cast<size_t>(at - base_);
      return bytes <= capacity_ - offset ? offset : outside;
    }
    for (const Window& window : windows_) {
      if (at < window.memory || at >= window.memory + window.bytes) continue;
      auto within = static_cast<size_t>(at - window.memory);
      return bytes <= window.bytes - within ? window.offset + within : outside;
    }
    return outside;
  }
  // Takes free space of the file and returns its offset; `capacity_` if there is none.
  size_t take_space(size_t bytes);
  void give_space(size_t offset, size_t bytes);

  char* base_ = nullptr;
  size_t capacity_ = 0;
  int fd_ = -1;
  std::mutex mutex_;
  std::map<size_t, size_t> free_;  // offset → bytes, neighbours merged
  std::map<size_t, size_t> used_;
  std::vector<Window> windows_;  // changed only while no operation runs
};

}  // namespace hvd
