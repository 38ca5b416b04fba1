#include "peer-arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

namespace hvd {

namespace {
// The numbers come from a peer: an unnamed file of this user, as large as the peer says, and nothing else (as in
// src/control/memory-file.ts).
bool is_arena(int fd, uint64_t id, size_t bytes) {
  struct stat file;
  return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() && file.st_nlink == 0 &&
         file.st_ino == id && static_cast<size_t>(file.st_size) >= bytes;
}
}  // namespace

PeerArena::~PeerArena() {
  for (auto [memory, bytes] : mappings_) munmap(memory, bytes);
}

bool PeerArena::reach(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (!mappings_.empty() && bytes <= mappings_.back().second) return true;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid_, fd_);
  const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  // From the beginning, and twice as much as before: a few mappings are enough for an arena of any size. What lies behind
  // the end of the file is not touched before the owner has extended it.
  size_t doubled = size_t{16} << 20;
  while (doubled < bytes) doubled *= 2;
  const bool is_it = is_arena(fd, id_, bytes);
  bool is_mapped = false;
  for (size_t wanted : {doubled, bytes}) {
    if (!is_it || is_mapped) break;
    void* memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED) continue;
    is_mapped = true;
    mappings_.emplace_back(memory, wanted);
    base_.store(static_cast<char*>(memory), std::memory_order_release);
  }
  close(fd);
  return is_mapped;
}

std::shared_ptr<PeerArena> PeerArenas::open(int pid, int fd, uint64_t id) {
  std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<PeerArena>& known = known_[{pid, id}];
  std::shared_ptr<PeerArena> arena = known.lock();
  if (!arena) known = arena = std::make_shared<PeerArena>(pid, fd, id);
  return arena;
}

}  // namespace hvd
