#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

namespace hvd {

namespace {
constexpr size_t page_bytes = 4096;
constexpr size_t first_region_bytes = size_t{16} << 20;
// The maximum memory of a 32-bit WebAssembly module.
constexpr size_t growth_bytes = size_t{4} << 30;
size_t pages(size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

bool write_all(int fd, const char* from, size_t bytes, size_t offset) {
  while (bytes > 0) {
    const ssize_t written = pwrite(fd, from, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    offset += static_cast<size_t>(written);
    bytes -= static_cast<size_t>(written);
  }
  return true;
}
}  // namespace

Arena::Arena() {
  capacity_ = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  fd_ = memfd_create("horovod-alloc", MFD_CLOEXEC);
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  struct stat file;
  if (fstat(fd_, &file) == 0) id_ = file.st_ino;
}

Arena::~Arena() {
  const size_t count = count_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < count; i++)
    if (!extents_[i].is_window) munmap(extents_[i].memory, extents_[i].bytes.load(std::memory_order_relaxed));
  close(fd_);
}

void* Arena::allocate(size_t bytes) {
  if (bytes > capacity_) return nullptr;
  const size_t wanted = pages(bytes == 0 ? 1 : bytes);
  std::lock_guard lock(mutex_);
  if (wanted > capacity_ - used_bytes_) return nullptr;
  size_t offset = take_space(wanted);
  if (offset == outside && add_region(wanted)) offset = take_space(wanted);
  if (offset == outside) return nullptr;
  if (fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(wanted)) != 0) {
    give_space(offset, wanted);
    return nullptr;
  }
  used_[offset] = wanted;
  used_bytes_ += wanted;
  used_until(offset + wanted);
  const Extent& region = region_at(offset);
  return region.memory + (offset - region.offset);
}

void Arena::release(void* block) {
  std::lock_guard lock(mutex_);
  auto it = used_.find(offset_of(block, 0));
  if (it == used_.end()) return;
  auto [offset, bytes] = *it;
  used_.erase(it);
  used_bytes_ -= bytes;
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  give_space(offset, bytes);
}

bool Arena::retire(const void* pointer) {
  std::lock_guard lock(mutex_);
  const uint64_t offset = offset_of(pointer, 0);
  if (offset == outside) return false;
  auto block = used_.upper_bound(offset);
  if (block == used_.begin() || offset >= (--block)->first + block->second) {
    block = retired_.upper_bound(offset);
    return block != retired_.begin() && offset < (--block)->first + block->second;
  }
  retired_.insert(used_.extract(block));
  return true;
}

bool Arena::adopt(void* memory, size_t bytes) {
  auto* start = static_cast<char*>(memory);
  if (bytes == 0 || bytes % page_bytes != 0 || reinterpret_cast<uintptr_t>(memory) % page_bytes != 0) return false;
  std::lock_guard lock(mutex_);
  const size_t count = count_.load(std::memory_order_relaxed);
  Extent* window = nullptr;
  for (size_t i = 0; i < count; i++)
    if (extents_[i].is_window && extents_[i].memory == start) window = &extents_[i];
  if (!window && count == extents_.size()) return false;
  const size_t offset = window ? window->offset : file_end_;
  const size_t reserved = window ? window->reserved : std::max(bytes, growth_bytes);
  const size_t done = window ? window->bytes.load(std::memory_order_relaxed) : 0;
  if (bytes <= done) return true;
  if (bytes > reserved) return false;
  const size_t rest = bytes - done;
  const auto at = static_cast<off_t>(offset + done);
  if (fallocate(fd_, 0, at, static_cast<off_t>(rest)) != 0) return false;
  const bool is_mapped = write_all(fd_, start + done, rest, offset + done) &&
                         mmap(start + done, rest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, at) != MAP_FAILED;
  if (!is_mapped) {
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, static_cast<off_t>(rest));
    return false;
  }
  used_until(offset + bytes);
  if (window)
    window->bytes.store(bytes, std::memory_order_release);
  else
    add_extent(start, offset, bytes, reserved, true);
  return true;
}

// Regions double, so that there are few of them; if there is no address space for that, only what is needed is mapped.
bool Arena::add_region(size_t bytes) {
  if (count_.load(std::memory_order_relaxed) == extents_.size()) return false;
  const size_t doubled = std::max({bytes, first_region_bytes, std::min(region_bytes_, capacity_)});
  for (size_t wanted : {doubled, bytes}) {
    void* memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, static_cast<off_t>(file_end_));
    if (memory == MAP_FAILED) continue;
    const size_t offset = file_end_;
    region_bytes_ += wanted;
    add_extent(static_cast<char*>(memory), offset, wanted, wanted, false);
    give_space(offset, wanted);
    return true;
  }
  return false;
}

void Arena::add_extent(char* memory, size_t offset, size_t bytes, size_t reserved, bool is_window) {
  const size_t count = count_.load(std::memory_order_relaxed);
  Extent& extent = extents_[count];
  extent.memory = memory;
  extent.offset = offset;
  extent.bytes.store(bytes, std::memory_order_relaxed);
  extent.reserved = reserved;
  extent.is_window = is_window;
  file_end_ = offset + reserved;
  count_.store(count + 1, std::memory_order_release);
}

void Arena::used_until(uint64_t end) {
  if (end > used_end_.load(std::memory_order_relaxed)) used_end_.store(end, std::memory_order_release);
}

const Arena::Extent& Arena::region_at(size_t offset) const {
  size_t i = 0;
  while (offset < extents_[i].offset || offset - extents_[i].offset >= extents_[i].reserved) i++;
  return extents_[i];
}

size_t Arena::take_space(size_t bytes) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    auto [offset, available] = *it;
    if (available < bytes) continue;
    free_.erase(it);
    if (available > bytes) free_[offset + bytes] = available - bytes;
    return offset;
  }
  return outside;
}

void Arena::give_space(size_t offset, size_t bytes) {
  const Extent* region = &region_at(offset);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes && &region_at(next->first) == region) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset && &region_at(before->first) == region) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace hvd
