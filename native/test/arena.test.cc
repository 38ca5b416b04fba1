// alloc() memory: blocks are page-aligned and zeroed, come back, grow together again, and run out with an answer.

#include "shm/arena.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "shm/peer-memory.h"

using hvd::Arena;
using hvd::arena_bit;
using hvd::Member;
using hvd::PeerMemory;

namespace {
constexpr size_t page = 4096;
char* taken(Arena& arena, size_t bytes) {
  void* block = arena.allocate(bytes);
  CHECK(block != nullptr);
  return static_cast<char*>(block);
}
bool is_zero(const char* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (from[i] != 0) return false;
  return true;
}
}  // namespace

TEST("a block is zeroed, page-aligned, known to the arena, and apart from the others") {
  Arena arena;
  char* a = taken(arena, 5000);
  char* b = taken(arena, 1);
  CHECK_EQ(reinterpret_cast<uintptr_t>(a) % page, size_t{0});
  CHECK_EQ(b - a, static_cast<ptrdiff_t>(2 * page));
  CHECK(is_zero(a, 5000));
  std::memset(a, 1, 5000);
  CHECK_EQ(b[0], 0);
  CHECK(arena.contains(a, 5000));
  CHECK(!arena.contains(&arena, 1));
  CHECK(!arena.contains(a, arena.capacity() + 1));
  CHECK_EQ(arena.offset_of(b, 1) - arena.offset_of(a, 1), uint64_t{2 * page});
}

TEST("no bytes are a block too") {
  Arena arena;
  char* a = taken(arena, 0);
  CHECK(taken(arena, 0) != a);
}

TEST("what was given back is used again, and zeroed") {
  Arena arena;
  char* a = taken(arena, page);
  taken(arena, page);
  std::memset(a, 7, page);
  arena.release(a);
  CHECK_EQ(static_cast<void*>(taken(arena, page)), static_cast<void*>(a));
  CHECK(is_zero(a, page));
}

TEST("neighbours given back in any order become one block again") {
  for (int order = 0; order < 6; order++) {
    Arena arena;
    char* blocks[] = {taken(arena, page), taken(arena, page), taken(arena, page)};
    taken(arena, page);  // keeps the rest away
    const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i : orders[order]) arena.release(blocks[i]);
    CHECK_EQ(static_cast<void*>(taken(arena, 3 * page)), static_cast<void*>(blocks[0]));
  }
}

TEST("giving back twice, or something else, changes nothing") {
  Arena arena;
  char* a = taken(arena, page);
  char* b = taken(arena, page);
  arena.release(b + 8);
  arena.release(a);
  arena.release(a);
  CHECK_EQ(static_cast<void*>(taken(arena, page)), static_cast<void*>(a));
}

TEST("a retired block is never used again, and other memory cannot be retired") {
  Arena arena;
  char* a = taken(arena, 2 * page);
  CHECK(arena.retire(a + page));
  CHECK(arena.retire(a));
  arena.release(a);
  std::memset(a, 7, 2 * page);
  CHECK(taken(arena, page) >= a + 2 * page);
  CHECK_EQ(a[0], 7);
  CHECK(!arena.retire(a + 100 * page));
  CHECK(!arena.retire(&arena));
}

TEST("an allocation that is too large fails, and the arena stays usable") {
  Arena arena;
  CHECK_EQ(arena.allocate(arena.capacity() + page), static_cast<void*>(nullptr));
  CHECK(taken(arena, page) != nullptr);
}

TEST("several threads may take and give back at the same time") {
  Arena arena;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      for (size_t n = 0; n < 50; n++) {
        size_t bytes = (n % 3 + 1) * page;
        auto* block = static_cast<char*>(arena.allocate(bytes));
        if (block == nullptr || !is_zero(block, bytes)) wrong++;
        if (block == nullptr) continue;
        std::memset(block, t + 1, bytes);
        arena.release(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

namespace {
struct Pages {  // private memory, as a WebAssembly heap is
  char* start;
  size_t bytes;
  explicit Pages(size_t count) : bytes(count * page) {
    start = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Pages() { munmap(start, bytes); }
};
char read_file(Arena& arena, uint64_t offset) {
  char byte = 0;
  CHECK_EQ(pread(arena.fd(), &byte, 1, static_cast<off_t>(offset)), ssize_t{1});
  return byte;
}
}  // namespace

TEST("adopted memory keeps its address and contents, and is the file's from then on") {
  Arena arena;
  Pages heap(4);
  heap.start[page + 5] = 42;
  CHECK(!arena.contains(heap.start, 1));
  CHECK(arena.adopt(heap.start, 2 * page));
  CHECK(arena.contains(heap.start, 2 * page));
  CHECK(!arena.contains(heap.start, 2 * page + 1));
  CHECK(!arena.contains(heap.start + 2 * page, 1));
  CHECK_EQ(heap.start[page + 5], 42);
  CHECK_EQ(read_file(arena, arena.offset_of(heap.start + page + 5, 1)), 42);
  heap.start[7] = 9;
  CHECK_EQ(read_file(arena, arena.offset_of(heap.start + 7, 1)), 9);
}

TEST("adopted memory that has grown is adopted further, in one piece") {
  Arena arena;
  Pages heap(4);
  CHECK(arena.adopt(heap.start, 2 * page));
  heap.start[3 * page] = 3;
  CHECK(arena.adopt(heap.start, 4 * page));
  CHECK(arena.adopt(heap.start, 4 * page));
  CHECK(arena.contains(heap.start, 4 * page));
  CHECK_EQ(arena.offset_of(heap.start + 3 * page, 1) - arena.offset_of(heap.start, 1), uint64_t{3 * page});
  CHECK_EQ(read_file(arena, arena.offset_of(heap.start + 3 * page, 1)), 3);
}

TEST("blocks and adopted memory do not overlap") {
  Arena arena;
  Pages heap(2), other(2);
  char* a = taken(arena, page);
  CHECK(arena.adopt(heap.start, 2 * page));
  CHECK(arena.adopt(other.start, 2 * page));
  char* b = taken(arena, page);
  std::memset(a, 1, page);
  std::memset(b, 2, page);
  CHECK(is_zero(heap.start, 2 * page));
  std::memset(other.start, 3, 2 * page);
  CHECK(is_zero(heap.start, 2 * page));
  CHECK_EQ(a[page - 1], 1);
  CHECK_EQ(b[0], 2);
}

TEST("what is no whole pages is not adopted") {
  Arena arena;
  Pages heap(2);
  CHECK(!arena.adopt(heap.start + 8, page));
  CHECK(!arena.adopt(heap.start, page + 1));
  CHECK(!arena.adopt(heap.start, 0));
  CHECK(!arena.contains(heap.start, 1));
}

TEST("the memory outlives the arena that adopted it, and may be adopted by another") {
  Pages heap(2);
  {
    Arena arena;
    CHECK(arena.adopt(heap.start, 2 * page));
    heap.start[1] = 8;
  }
  CHECK_EQ(heap.start[1], 8);
  Arena next;
  CHECK(next.adopt(heap.start, 2 * page));
  CHECK_EQ(heap.start[1], 8);
  CHECK_EQ(read_file(next, next.offset_of(heap.start + 1, 1)), 8);
}

TEST("an arena takes address space when it is needed, in few pieces") {
  Arena arena;
  CHECK_EQ(arena.used_end(), uint64_t{0});
  std::vector<char*> blocks;
  for (size_t megabytes : {1, 20, 3, 60, 1, 200}) {
    blocks.push_back(taken(arena, megabytes << 20));
    std::memset(blocks.back(), static_cast<int>(blocks.size()), page);
  }
  for (size_t i = 0; i < blocks.size(); i++) {
    CHECK_EQ(blocks[i][0], static_cast<char>(i + 1));
    CHECK_EQ(read_file(arena, arena.offset_of(blocks[i], page)), static_cast<char>(i + 1));
    CHECK(arena.used_end() >= arena.offset_of(blocks[i], 1));
  }
  // No block lies across two regions, and neighbours in different regions do not merge.
  for (char* block : blocks) arena.release(block);
  for (size_t megabytes : {16, 16, 100, 200}) CHECK(is_zero(taken(arena, megabytes << 20), page));
}

TEST("the arena of a peer is mapped only if it is an unnamed file of this user, as large as the peer says") {
  Arena arena;
  CHECK(arena.allocate(page) != nullptr);
  std::unique_ptr<Member[]> members(new Member[2]());
  members[1].pid = getpid();
  char name[] = "/tmp/hvd-arena-XXXXXX";
  int named = mkstemp(name);
  int pipes[2];
  CHECK(named >= 0 && ftruncate(named, page) == 0 && pipe(pipes) == 0);
  auto maps = [&](int fd, uint64_t bytes) {
    struct stat file;
    CHECK_EQ(fstat(fd, &file), 0);
    members[1].arena_fd = fd;
    members[1].arena_id = file.st_ino;
    return PeerMemory(members.get(), 2, 0, nullptr).reach(1, bytes);
  };
  CHECK(maps(arena.fd(), arena.used_end()));
  CHECK(!maps(arena.fd(), arena.used_end() + page));
  CHECK(!maps(named, page));
  CHECK(!maps(pipes[0], page));
  CHECK_EQ(unlink(name), 0);
  CHECK(maps(named, page));
  for (int fd : {named, pipes[0], pipes[1]}) close(fd);
}
