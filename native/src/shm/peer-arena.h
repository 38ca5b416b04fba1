// The arenas of other ranks, as this process maps them: once, however many groups use them, and only as far as was needed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace hvd {

class PeerArena {
 public:
  // `fd` is the arena's in process `pid`.
  PeerArena(int pid, int fd, uint64_t id) : pid_(pid), fd_(fd), id_(id) {}
  ~PeerArena();
  PeerArena(const PeerArena&) = delete;
  PeerArena& operator=(const PeerArena&) = delete;

  // Makes sure that its first `bytes` bytes are mapped; false if that is impossible. Any thread.
  bool reach(size_t bytes);
  // Only for what was reached. The address is valid as long as this object.
  char* at(uint64_t offset) const { return base_.load(std::memory_order_acquire) + offset; }

 private:
  const int pid_, fd_;
  const uint64_t id_;
  std::mutex mutex_;
  std::atomic<char*> base_{nullptr};  // of the newest mapping
  // Each longer than the one before. The older ones stay: another thread may be using them.
  std::vector<std::pair<void*, size_t>> mappings_;
};

class PeerArenas {
 public:
  // Groups of the same rank share it; it ends with the last of them.
  std::shared_ptr<PeerArena> open(int pid, int fd, uint64_t id);

 private:
  std::mutex mutex_;
  std::map<std::pair<int, uint64_t>, std::weak_ptr<PeerArena>> known_;
};

}  // namespace hvd
