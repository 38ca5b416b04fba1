#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>

namespace hvd {

namespace {
constexpr size_t page_bytes = 4096;
// The maximum memory of a 32-bit WebAssembly module.
constexpr size_t growth_bytes = size_t{4} << 30;
size_t pages(size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }
}  // namespace

Arena::Arena() {
  // As large as the machine's memory. This is address space only; nothing is reserved yet.
  capacity_ = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  fd_ = memfd_create("horovod-alloc", MFD_CLOEXEC);
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  if (ftruncate(fd_, static_cast<off_t>(capacity_)) != 0) {
    int error = errno;
    close(fd_);
    throw std::system_error(error, std::generic_category(), "ftruncate of the alloc() memory");
  }
  void* base = mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (base == MAP_FAILED) {
    int error = errno;
    close(fd_);
    throw std::system_error(error, std::generic_category(), "mmap of the alloc() memory");
  }
  base_ = static_cast<char*>(base);
  free_[0] = capacity_;
}

Arena::~Arena() {
  munmap(base_, capacity_);
  close(fd_);
}

void* Arena::allocate(size_t bytes) {
  size_t wanted = pages(bytes == 0 ? 1 : bytes);
  std::lock_guard lock(mutex_);
  size_t offset = take_space(wanted);
  if (offset == capacity_) return nullptr;
  if (fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(wanted)) != 0) {
    give_space(offset, wanted);
    return nullptr;
  }
  used_[offset] = wanted;
  return base_ + offset;
}

void Arena::release(void* block) {
  std::lock_guard lock(mutex_);
  auto it = used_.find(static_cast<size_t>(static_cast<char*>(block) - base_));
  if (it == used_.end()) return;
  auto [offset, bytes] = *it;
  used_.erase(it);
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  give_space(offset, bytes);
}

bool Arena::adopt(void* memory, size_t bytes) {
  auto* start = static_cast<char*>(memory);
  if (bytes == 0 || bytes % page_bytes != 0 || reinterpret_cast<uintptr_t>(memory) % page_bytes != 0) return false;
  std::lock_guard lock(mutex_);
  Window* window = nullptr;
  for (Window& known : windows_)
    if (known.memory == start) window = &known;
  bool is_new = window == nullptr;
  if (is_new) {
    size_t reserved = std::max(bytes, std::min(growth_bytes, capacity_ / 2));
    size_t offset = take_space(reserved);
    if (offset == capacity_) return false;
    windows_.push_back({start, 0, reserved, offset});
    window = &windows_.back();
  }
  if (bytes <= window->bytes) return true;
  size_t done = window->bytes, rest = bytes - done;
  bool can = bytes <= window->reserved &&
             fallocate(fd_, 0, static_cast<off_t>(window->offset + done), static_cast<off_t>(rest)) == 0;
  if (can) {
    std::memcpy(base_ + window->offset + done, start + done, rest);
    can = mmap(start + done, rest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_,
               static_cast<off_t>(window->offset + done)) != MAP_FAILED;
  }
  if (can) {
    window->bytes = bytes;
  } else if (is_new) {
    give_space(window->offset, window->reserved);
    windows_.pop_back();
  }
  return can;
}

size_t Arena::take_space(size_t bytes) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    auto [offset, available] = *it;
    if (available < bytes) continue;
    free_.erase(it);
    if (available > bytes) free_[offset + bytes] = available - bytes;
    return offset;
  }
  return capacity_;
}

void Arena::give_space(size_t offset, size_t bytes) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace hvd
