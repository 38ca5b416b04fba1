// Several members in one process, a thread each: what the tests of control, group and worker stand on. Every member maps
// the segment for itself, as processes do, so ThreadSanitizer sees what the threads of one member do to each other.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "group/control.h"
#include "shm/arena.h"
#include "shm/shm-group.h"

namespace world {

constexpr size_t page_bytes = 4096;
constexpr int64_t second_ns = 1'000'000'000;

// A file of zeros in memory.
class MemoryFile {
 public:
  explicit MemoryFile(size_t bytes) : bytes_(bytes), fd_(memfd_create("horovod-test", MFD_CLOEXEC)) {
    CHECK(fd_ >= 0);
    CHECK_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    CHECK(memory != MAP_FAILED);
    memory_ = static_cast<char*>(memory);
  }
  ~MemoryFile() {
    munmap(memory_, bytes_);
    close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const { return fd_; }
  std::atomic<uint32_t>& word(size_t offset) const {
    return *reinterpret_cast<std::atomic<uint32_t>*>(memory_ + offset);
  }

 private:
  size_t bytes_;
  int fd_;
  char* memory_;
};

// The control block as src/control/control-block.ts lays it out: a page for the job, and one for each rank.
class Block : public MemoryFile {
 public:
  explicit Block(int ranks) : MemoryFile(page_bytes * static_cast<size_t>(1 + ranks)) {
    for (int rank = 0; rank < ranks; rank++) state(rank).store(1);
  }
  std::atomic<uint32_t>& state(int rank) const { return word(page_bytes * static_cast<size_t>(1 + rank)); }
  std::atomic<uint32_t>& exit_kind(int rank) const { return word(page_bytes * static_cast<size_t>(1 + rank) + 12); }
  void leave(int rank) const { state(rank).store(2); }
  void fail() const { word(8).store(2); }
};

// Long enough for a sanitizer on a busy machine; a test that waits this long has failed.
inline hvd::Patience patient() {
  hvd::Patience patience{};
  patience.timeout_ns = 60 * second_ns;
  return patience;
}

// Runs `part` for every member on a thread of its own; the first check that fails is the test's.
inline void together(int members, const std::function<void(int)>& part) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(members));
  std::vector<std::thread> threads;
  for (int i = 0; i < members; i++) {
    threads.emplace_back([&, i] {
      try {
        part(i);
      } catch (...) {
        failures[static_cast<size_t>(i)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

struct Member {
  std::unique_ptr<hvd::Control> control;
  std::unique_ptr<hvd::Arena> arena;
  std::unique_ptr<hvd::ShmGroup> group;
};

struct Members {
  Block block;
  MemoryFile segment;
  std::vector<Member> members;

  explicit Members(int count, bool copies = false)
      : block(count), segment(hvd::ShmGroup::segment_bytes(count)), members(static_cast<size_t>(count)) {
    std::vector<int> ranks;
    for (int i = 0; i < count; i++) ranks.push_back(i);
    for (int i = 0; i < count; i++) {
      Member& member = members[static_cast<size_t>(i)];
      member.control = std::make_unique<hvd::Control>(block.fd(), i, count);
      member.arena = std::make_unique<hvd::Arena>();
      member.group = std::make_unique<hvd::ShmGroup>(segment.fd(), ranks, i, *member.control, member.arena.get());
    }
    for (Member& member : members) member.group->probe_peer_memory(copies);
  }
  // Nobody looks at anybody any more: an end is no loss.
  ~Members() {
    for (size_t i = 0; i < members.size(); i++) block.leave(static_cast<int>(i));
  }
  int size() const { return static_cast<int>(members.size()); }
  hvd::ShmGroup& group(int i) { return *members[static_cast<size_t>(i)].group; }
  hvd::Arena& arena(int i) { return *members[static_cast<size_t>(i)].arena; }

  void together(const std::function<void(int)>& part) { world::together(size(), part); }
};

}  // namespace world
