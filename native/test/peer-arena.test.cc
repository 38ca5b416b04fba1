// The arenas of other ranks: mapped as far as needed, once for all groups of a process, and copied from where they cannot be
// mapped.

#include "shm/peer-arena.h"

#include <cstddef>
#include <fstream>
#include <string>

#include "check.h"
#include "world.h"

using namespace hvd;
using world::Members;
using world::patient;

namespace {

struct Mapped {
  size_t count = 0, bytes = 0;
};

// What this process has mapped of arenas, its own ones included.
Mapped mapped_arenas() {
  Mapped mapped;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:horovod-alloc") == std::string::npos) continue;
    const size_t dash = line.find('-');
    mapped.count++;
    mapped.bytes += std::stoull(line.substr(dash + 1), nullptr, 16) - std::stoull(line.substr(0, dash), nullptr, 16);
  }
  return mapped;
}

// Every kind of collective once, in arena memory, and whether the results are right.
void run_every_kind(ShmGroup& group, Arena& arena, int me, int size) {
  constexpr size_t count = 20'000;
  const auto members = static_cast<size_t>(size);
  auto* in = static_cast<float*>(arena.allocate(count * members * 4));
  auto* out = static_cast<float*>(arena.allocate(count * members * 4));
  CHECK(in != nullptr && out != nullptr);
  for (Kind kind : {Kind::allreduce, Kind::reducescatter, Kind::allgather, Kind::broadcast, Kind::alltoall}) {
    for (size_t i = 0; i < count * members; i++) in[i] = static_cast<float>(me + 1);
    std::vector<char> memory;
    Operation operation;
    operation.kind = kind;
    operation.dtype = DType::float32;
    operation.fingerprint = static_cast<uint64_t>(kind) + 1;
    operation.allocate = [](void* context, size_t bytes) {
      auto& result = *static_cast<std::vector<char>*>(context);
      result.resize(bytes + 1);
      return result.data();
    };
    operation.allocate_context = &memory;
    const bool is_parted = kind == Kind::reducescatter || kind == Kind::alltoall;
    operation.buffers = {{reinterpret_cast<char*>(in), reinterpret_cast<char*>(out), count * 4 * (is_parted ? members : 1)}};
    if (is_parted) operation.counts.assign(members, kind == Kind::alltoall ? count * 4 : count);
    CHECK_EQ(group.run(operation, patient()), Status::done);
    const bool is_gathered = kind == Kind::allgather || kind == Kind::alltoall;
    const float sum = static_cast<float>(size * (size + 1) / 2);
    for (size_t i = 0; i < (is_gathered ? count * members : count); i++) {
      float value = out[i];
      if (is_gathered) std::memcpy(&value, operation.result + i * 4, 4);
      CHECK_EQ(value, is_gathered ? static_cast<float>(i / count + 1) : kind == Kind::broadcast ? 1.0f : sum);
    }
  }
  Operation barrier;
  CHECK_EQ(group.run(barrier, patient()), Status::done);
  arena.release(in);
  arena.release(out);
}

bool posts_in_arena(Members& members, int i) {
  const size_t block = sizeof(hvd::Member) * static_cast<size_t>(i);
  const uint32_t flags = members.segment.word(block + offsetof(hvd::Member, posts) + offsetof(Line, words) + 8).load() |
                         members.segment.word(block + offsetof(hvd::Member, posts) + sizeof(Post) + offsetof(Line, words) + 8).load();
  return (flags & post_flag::all_in_arena) != 0;
}

// As if a limit of the address space kept the others from mapping the arena of member i.
void forbid_mapping(Members& members, int i) {
  members.segment.word(sizeof(hvd::Member) * static_cast<size_t>(i) + offsetof(hvd::Member, arena_fd)).store(1'000'000);
}

}  // namespace

TEST("memory of an arena is reached in place from the second operation on") {
  Members members(3);
  members.together([&](int me) { run_every_kind(members.group(me), members.arena(me), me, 3); });
  for (int i = 0; i < 3; i++) CHECK(posts_in_arena(members, i));
}

TEST("an arena that cannot be mapped is copied from: no operation fails, on any way") {
  for (bool copies : {false, true}) {
    Members members(3, copies);
    forbid_mapping(members, 1);
    for (int n = 0; n < 3; n++)
      members.together([&](int me) { run_every_kind(members.group(me), members.arena(me), me, 3); });
    CHECK(!posts_in_arena(members, 1));
    CHECK(posts_in_arena(members, 2));
  }
}

TEST("an arena that grows is mapped further, while operations go on") {
  Members members(2);
  members.together([&](int me) {
    std::vector<void*> kept;
    for (int n = 0; n < 4; n++) {
      run_every_kind(members.group(me), members.arena(me), me, 2);
      kept.push_back(members.arena(me).allocate(size_t{24} << 20));
      CHECK(kept.back() != nullptr);
    }
    for (void* each : kept) members.arena(me).release(each);
  });
  for (int i = 0; i < 2; i++) CHECK(posts_in_arena(members, i));
}

TEST("64 groups of the same members map each arena once") {
  Members members(2);
  std::vector<std::unique_ptr<world::MemoryFile>> segments;
  std::vector<std::unique_ptr<ShmGroup>> groups[2];
  for (int n = 0; n < 64; n++) {
    segments.push_back(std::make_unique<world::MemoryFile>(ShmGroup::segment_bytes(2)));
    for (int i = 0; i < 2; i++)
      groups[i].push_back(std::make_unique<ShmGroup>(segments.back()->fd(), std::vector<int>{0, 1}, i,
                                                     *members.members[static_cast<size_t>(i)].control, &members.arena(i)));
  }
  members.together([&](int me) {
    for (auto& group : groups[me]) run_every_kind(*group, members.arena(me), me, 2);
  });
  CHECK_EQ(mapped_arenas().count, size_t{4});  // two arenas, by their owners and by the other members
  CHECK(mapped_arenas().bytes <= size_t{4} * (16 << 20));
  for (auto& of_member : groups) of_member.clear();
}

TEST("the address space of 32 ranks depends on what they use, not on the memory of the machine") {
  constexpr size_t ranks = 32;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<std::shared_ptr<PeerArena>> peers;
  for (size_t i = 0; i < ranks; i++) arenas.push_back(std::make_unique<Arena>());
  CHECK_EQ(mapped_arenas().count, size_t{0});
  for (auto& arena : arenas) CHECK(arena->allocate(1 << 20) != nullptr);
  for (auto& arena : arenas)
    for (auto& other : arenas) {
      if (other == arena) continue;
      peers.push_back(arena->peers().open(getpid(), other->fd(), other->id()));
      CHECK(peers.back()->reach(other->used_end()));
    }
  CHECK_EQ(mapped_arenas().count, ranks * ranks);
  CHECK(mapped_arenas().bytes <= ranks * ranks * (16 << 20));
}

TEST("another file behind the number of the descriptor is not the arena") {
  Arena arena, other;
  CHECK(arena.allocate(4096) != nullptr && other.allocate(4096) != nullptr);
  CHECK(!PeerArena(getpid(), other.fd(), arena.id()).reach(4096));
  CHECK(!PeerArena(getpid(), arena.fd(), arena.id()).reach(8192));  // more than there is
  CHECK(PeerArena(getpid(), arena.fd(), arena.id()).reach(4096));
}

TEST("what was reached stays where it is when more is reached") {
  Arena arena;
  auto* block = static_cast<char*>(arena.allocate(4096));
  PeerArena peer(getpid(), arena.fd(), arena.id());
  CHECK(peer.reach(arena.used_end()));
  char* first = peer.at(arena.offset_of(block, 1));
  CHECK(arena.allocate(size_t{40} << 20) != nullptr);
  CHECK(peer.reach(arena.used_end()));
  block[0] = 7;
  CHECK_EQ(*first, 7);
  CHECK_EQ(*peer.at(arena.offset_of(block, 1)), 7);
}
