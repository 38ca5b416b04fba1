#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <system_error>

namespace hvd {

namespace {
constexpr size_t page_bytes = 4096;
size_t pages(size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }
}  // namespace

Arena::Arena() {
  // As large as the machine's memory: address space only, nothing is reserved yet.
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
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    auto [offset, available] = *it;
    if (available < wanted) continue;
    if (fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(wanted)) != 0) return nullptr;
    free_.erase(it);
    if (available > wanted) free_[offset + wanted] = available - wanted;
    used_[offset] = wanted;
    return base_ + offset;
  }
  return nullptr;
}

void Arena::release(void* block) {
  std::lock_guard lock(mutex_);
  auto it = used_.find(offset_of(block));
  if (it == used_.end()) return;
  auto [offset, bytes] = *it;
  used_.erase(it);
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
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
