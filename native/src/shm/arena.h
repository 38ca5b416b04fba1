// Memory that the other ranks of this host can map: what alloc() hands out. One sparse memory file a process;
// pages are reserved when a block is allocated (so a full machine is an error here and never SIGBUS) and given
// back when it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

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

  bool contains(const void* pointer, size_t bytes) const {
    auto offset = static_cast<size_t>(static_cast<const char*>(pointer) - base_);
    return pointer >= base_ && offset < capacity_ && bytes <= capacity_ - offset;
  }
  uint64_t offset_of(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - base_);
  }
  int fd() const { return fd_; }
  size_t capacity() const { return capacity_; }

 private:
  char* base_ = nullptr;
  size_t capacity_ = 0;
  int fd_ = -1;
  std::mutex mutex_;
  std::map<size_t, size_t> free_;  // offset → bytes, neighbours merged
  std::map<size_t, size_t> used_;
};

}  // namespace hvd
