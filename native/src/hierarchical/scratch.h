// Memory that a group keeps from one operation to the next. It comes from the arena, where the other members of this host
// can read it; from the heap if there is no arena or no room in it.
#pragma once

#include <cstdlib>

#include "../shm/arena.h"

namespace hvd {

class Scratch {
 public:
  explicit Scratch(Arena* arena) : arena_(arena) {}
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least this many bytes. If the memory has to grow, its content is lost. False: no memory.
  bool reserve(size_t bytes) {
    if (bytes <= capacity_) return true;
    release();
    size_t wanted = 64 * 1024;
    while (wanted < bytes && wanted < (size_t{1} << 20)) wanted *= 2;
    if (wanted < bytes) wanted = bytes;
    data_ = arena_ ? static_cast<char*>(arena_->allocate(wanted)) : nullptr;
    in_arena_ = data_ != nullptr;
    if (!data_) data_ = static_cast<char*>(std::malloc(wanted));
    capacity_ = data_ ? wanted : 0;
    return data_ != nullptr;
  }
  char* data() const { return data_; }

 private:
  void release() {
    if (data_ && in_arena_) arena_->release(data_);
    if (data_ && !in_arena_) std::free(data_);
    data_ = nullptr;
    capacity_ = 0;
  }

  Arena* arena_;
  char* data_ = nullptr;
  size_t capacity_ = 0;
  bool in_arena_ = false;
};

}  // namespace hvd
