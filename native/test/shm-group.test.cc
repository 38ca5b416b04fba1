// Rounds of several members over one segment: every kind of operation, on every way the data can take, and every way a
// round can end badly.

#include "shm/shm-group.h"

#include <numeric>

#include "check.h"
#include "world.h"

using namespace hvd;
using world::Members;
using world::patient;

namespace {

// Around the limits: in the header, in the post, in one chunk, by parts, several chunks, straight from memory.
constexpr size_t sizes[] = {4, 40, 44, 1024, 1028, 2048, 32 * 1024, 128 * 1024, 128 * 1024 + 4, 192 * 1024, 600 * 1024 + 12};

enum class Way { staged, copied, shared };
constexpr Way ways[] = {Way::staged, Way::copied, Way::shared};

Status run(Group& group, Operation& operation) {
  return group.run(operation, patient());
}

Operation allreduce_of(std::vector<Buffer> buffers, uint64_t fingerprint = 1) {
  Operation operation;
  operation.kind = Kind::allreduce;
  operation.dtype = DType::float32;
  operation.fingerprint = fingerprint;
  operation.buffers = std::move(buffers);
  return operation;
}

Buffer in_place(void* data, size_t bytes) {
  return {static_cast<const char*>(data), static_cast<char*>(data), bytes};
}

char* allocate(void* context, size_t bytes) {
  auto& memory = *static_cast<std::vector<char>*>(context);
  memory.resize(bytes == 0 ? 1 : bytes);
  return memory.data();
}

float value_of(int member, size_t i) { return static_cast<float>((member + 1) * static_cast<int>(i % 13 + 1)); }

void check_allreduce(Members& members, size_t bytes, Way way, bool is_split) {
  members.together([&](int me) {
    const size_t count = bytes / 4;
    std::vector<float> own(way == Way::shared ? 0 : count);
    auto* data = way == Way::shared ? static_cast<float*>(members.arena(me).allocate(bytes)) : own.data();
    CHECK(data != nullptr);
    for (size_t i = 0; i < count; i++) data[i] = value_of(me, i);
    std::vector<Buffer> buffers;
    const size_t cut = is_split ? count / 3 * 4 : 0;
    if (cut > 0) buffers = {in_place(data, cut), in_place(data, 0), in_place(data + cut / 4, bytes - cut)};
    else buffers = {in_place(data, bytes)};
    Operation operation = allreduce_of(buffers);
    operation.prescale = is_split ? 2 : 1;
    operation.postscale = is_split ? 0.5 : 1;
    CHECK(run(members.group(me), operation) == Status::done);
    float factor = 0;
    for (int i = 0; i < members.size(); i++) factor += static_cast<float>(i + 1);
    for (size_t i = 0; i < count; i++) CHECK_EQ(data[i], factor * value_of(0, i));
    // Nobody frees what another one may still read.
    Operation barrier;
    CHECK(run(members.group(me), barrier) == Status::done);
    if (way == Way::shared) members.arena(me).release(data);
  });
}

}  // namespace

TEST("allreduce sums up on every way, at every size, in one buffer or several") {
  for (int count : {1, 2, 3, 4})
    for (Way way : ways) {
      Members members(count, way == Way::copied);
      for (size_t bytes : sizes)
        for (bool is_split : {false, true}) check_allreduce(members, bytes, way, is_split);
    }
}

TEST("allgather puts the members' bytes one after another, whatever their sizes") {
  for (bool copies : {false, true}) {
    Members members(3, copies);
    for (size_t unit : {0, 10, 700, 100'000})
      members.together([&](int me) {
        std::vector<char> mine(unit * static_cast<size_t>(me), static_cast<char>('a' + me)), memory;
        Operation operation;
        operation.kind = Kind::allgather;
        operation.buffers = {in_place(mine.data(), mine.size())};
        operation.allocate = allocate;
        operation.allocate_context = &memory;
        CHECK(run(members.group(me), operation) == Status::done);
        CHECK_EQ(operation.result_bytes, 3 * unit);
        CHECK_EQ(operation.received[2], uint64_t{2 * unit});
        for (size_t i = 0; i < 3 * unit; i++) CHECK_EQ(operation.result[i], i < unit ? 'b' : 'c');
      });
  }
}

TEST("broadcast gives everybody the root's bytes") {
  for (bool copies : {false, true}) {
    Members members(3, copies);
    for (int root = 0; root < 3; root++)
      for (size_t bytes : {1, 1024, 1025, 300'000})
        members.together([&](int me) {
          std::vector<char> mine(bytes, static_cast<char>('a' + me)), out(bytes);
          Operation operation;
          operation.kind = Kind::broadcast;
          operation.root = root;
          operation.buffers = {{mine.data(), out.data(), bytes}};
          CHECK(run(members.group(me), operation) == Status::done);
          for (char each : out) CHECK_EQ(each, static_cast<char>('a' + root));
          CHECK_EQ(mine[0], static_cast<char>('a' + me));
        });
  }
}

TEST("alltoall gives every member its part of everybody, whatever their sizes") {
  for (bool copies : {false, true}) {
    Members members(3, copies);
    for (size_t unit : {0, 5, 400, 90'000})
      members.together([&](int me) {
        // Member `me` sends (me + to) units to `to`.
        Operation operation;
        operation.kind = Kind::alltoall;
        std::vector<char> mine, memory;
        for (int to = 0; to < 3; to++) {
          size_t bytes = unit * static_cast<size_t>(me + to);
          operation.counts.push_back(bytes);
          mine.insert(mine.end(), bytes, static_cast<char>('0' + 3 * me + to));
        }
        operation.buffers = {in_place(mine.data(), mine.size())};
        operation.allocate = allocate;
        operation.allocate_context = &memory;
        CHECK(run(members.group(me), operation) == Status::done);
        size_t at = 0;
        for (int from = 0; from < 3; from++) {
          size_t bytes = unit * static_cast<size_t>(me + from);
          CHECK_EQ(operation.received[static_cast<size_t>(from)], bytes);
          for (size_t i = 0; i < bytes; i++) CHECK_EQ(operation.result[at++], static_cast<char>('0' + 3 * from + me));
        }
        CHECK_EQ(operation.result_bytes, at);
      });
  }
}

TEST("reducescatter gives every member its part of the sum, whatever its size") {
  for (bool copies : {false, true}) {
    Members members(3, copies);
    for (size_t unit : {1, 30, 5'000, 60'000})
      members.together([&](int me) {
        Operation operation;
        operation.kind = Kind::reducescatter;
        operation.dtype = DType::float32;
        operation.counts = {unit, 0, 2 * unit};
        std::vector<float> mine(3 * unit), out(operation.counts[static_cast<size_t>(me)] + 1);
        for (size_t i = 0; i < mine.size(); i++) mine[i] = value_of(me, i);
        operation.buffers = {{reinterpret_cast<char*>(mine.data()), reinterpret_cast<char*>(out.data()), 4 * mine.size()}};
        CHECK(run(members.group(me), operation) == Status::done);
        size_t start = me == 2 ? unit : 0;
        for (size_t i = 0; i + 1 < out.size(); i++) CHECK_EQ(out[i], 6 * value_of(0, start + i));
        CHECK_EQ(out.back(), 0.0f);
      });
  }
}

TEST("a round in which members want different things touches nothing, and the next one works") {
  for (size_t bytes : {4, 5000, 400'000}) {
    Members members(3, true);
    members.together([&](int me) {
      std::vector<float> mine(bytes / 4, static_cast<float>(me + 1));
      Operation one = allreduce_of({in_place(mine.data(), bytes)}, me == 1 ? 8 : 7);
      CHECK(run(members.group(me), one) == Status::mismatch);
      for (float each : mine) CHECK_EQ(each, static_cast<float>(me + 1));
      Operation other = allreduce_of({in_place(mine.data(), bytes)}, 9);
      CHECK(run(members.group(me), other) == Status::done);
      for (float each : mine) CHECK_EQ(each, 6.0f);
    });
  }
}

TEST("who waits passively sees that another has begun") {
  Members members(2);
  CHECK(!members.group(0).anyone_started());
  CHECK_EQ(members.group(0).missing().size(), size_t{2});
  Operation barrier;
  members.group(1).start(barrier);
  CHECK(members.group(0).anyone_started());
  CHECK(!members.group(1).anyone_started());
  CHECK((members.group(1).missing() == std::vector<int>{0}));
  members.group(0).start(barrier);
  CHECK(members.group(0).everyone_arrived());
  CHECK(members.group(0).arrive(patient()) == Status::done);
  CHECK(members.group(0).execute(barrier, patient()) == Status::done);
}

TEST("a wait ends at its deadline, and says who has not come") {
  Members members(3);
  Operation barrier;
  for (int me : {0, 2}) members.group(me).start(barrier);
  Patience patience = patient();
  patience.timeout_ns = 20'000'000;
  for (int me : {0, 2}) {
    CHECK(members.group(me).arrive(patience) == Status::timeout);
    CHECK_EQ(members.group(me).culprit(), 1);
    CHECK((members.group(me).missing() == std::vector<int>{1}));
  }
}

TEST("a deadline in the middle of an operation leaves the round as it is, with nobody missing") {
  Members members(2, true);
  std::vector<char> mine(400'000), theirs(400'000);
  Operation own = allreduce_of({in_place(mine.data(), mine.size())});
  members.group(1).start(allreduce_of({in_place(theirs.data(), theirs.size())}));  // and never goes on
  Patience patience = patient();
  patience.timeout_ns = 20'000'000;
  CHECK(members.group(0).run(own, patience) == Status::timeout);
  CHECK_EQ(members.group(0).culprit(), 1);
  CHECK(members.group(0).missing().empty());
}

TEST("a wait that lasts says so again and again, and goes on to its end") {
  Members members(2);
  std::atomic<bool> may_come{false};
  members.together([&](int me) {
    Operation barrier;
    if (me == 1) {
      while (!may_come) usleep(1000);
      CHECK(run(members.group(1), barrier) == Status::done);
      return;
    }
    Patience patience = patient();
    patience.stall_ns = 2'000'000;
    Status status = members.group(0).run(barrier, patience);
    for (int stalls = 0; status == Status::stalled; stalls++) {
      if (stalls == 2) may_come = true;
      status = members.group(0).resume(barrier, patience);
    }
    CHECK(status == Status::done);
    CHECK(may_come.load());
  });
}

TEST("stop() ends a wait") {
  Members members(2);
  std::thread other([&] {
    while (members.group(1).missing().size() != 1) usleep(500);
    members.group(0).stop();
  });
  Operation barrier;
  Status status = run(members.group(0), barrier);
  other.join();
  CHECK(status == Status::stopped);
}

TEST("the loss of any member ends a wait, also of one that has come") {
  Members members(3);
  Operation barrier;
  members.group(1).start(barrier);
  members.members[1].control.reset();  // as if its process had died
  CHECK(run(members.group(0), barrier) == Status::peer_lost);
  CHECK_EQ(members.group(0).culprit(), 1);
}

TEST("a member that has left ends a wait as such") {
  Members members(2);
  members.block.leave(1);
  Operation barrier;
  CHECK(run(members.group(0), barrier) == Status::peer_left);
}

TEST("the failure of the job ends a wait, and a late member does not run on what others have given up") {
  Members members(2);
  Operation barrier;
  members.group(1).start(barrier);
  members.block.fail();
  CHECK(run(members.group(0), barrier) == Status::failed);
  CHECK(members.group(1).arrive(patient()) == Status::failed);
}

TEST("a result for which there is no memory is an answer") {
  Members members(2);
  members.together([&](int me) {
    char byte = 1;
    Operation operation;
    operation.kind = Kind::allgather;
    operation.buffers = {in_place(&byte, 1)};
    operation.allocate = [](void*, size_t) -> char* { return nullptr; };
    CHECK(run(members.group(me), operation) == Status::no_memory);
  });
}
