// Thresholds that the members of a group find when it opens: the same on all, and operations give the same results after.

#include "check.h"
#include "shm/shm-group.h"
#include "world.h"

using namespace hvd;
using world::Members;
using world::patient;

namespace {

void check_operations(Members& members) {
  members.together([&](int me) {
    for (size_t bytes : {4ul, 20'000ul, 300'000ul, 3'000'000ul}) {
      std::vector<float> data(bytes / 4, static_cast<float>(me + 1));
      Operation operation;
      operation.kind = Kind::allreduce;
      operation.dtype = DType::float32;
      operation.fingerprint = bytes;
      char* memory = reinterpret_cast<char*>(data.data());
      operation.buffers = {{memory, memory, bytes}};
      CHECK(members.group(me).run(operation, patient()) == Status::done);
      const int n = members.size();
      for (float value : data) CHECK_EQ(value, static_cast<float>(n * (n + 1) / 2));
      operation.kind = Kind::broadcast;
      operation.root = n - 1;
      std::fill(data.begin(), data.end(), static_cast<float>(me + 7));
      CHECK(members.group(me).run(operation, patient()) == Status::done);
      for (float value : data) CHECK_EQ(value, static_cast<float>(n + 6));
    }
  });
}

}  // namespace

TEST("members that calibrate come to the same thresholds") {
  for (int count : {2, 3}) {
    Members members(count, true);
    members.together([&](int me) { CHECK(members.group(me).calibrate(true, patient()) == Status::done); });
    for (int i = 1; i < count; i++) {
      CHECK_EQ(members.group(i).copies_from(), members.group(0).copies_from());
      CHECK_EQ(members.group(i).gathers_from(), members.group(0).gathers_from());
    }
    CHECK(members.group(0).copies_from() >= copy_from_bytes(count));
    check_operations(members);
  }
}

TEST("if a member cannot copy, or does not want it, calibrating changes nothing") {
  for (bool can_copy : {false, true}) {
    Members members(2, can_copy);
    members.group(1).probe_peer_memory(true);
    members.together([&](int me) { CHECK(members.group(me).calibrate(!can_copy || me == 0, patient()) == Status::done); });
    for (int i = 0; i < 2; i++) {
      CHECK_EQ(members.group(i).copies_from(), copy_from_bytes(2));
      CHECK_EQ(members.group(i).gathers_from(), size_t{0});
    }
    check_operations(members);
  }
}

TEST("a member that has died ends the calibration of the others") {
  Members members(2, true);
  members.block.leave(1);
  CHECK(members.group(0).calibrate(true, patient()) == Status::peer_left);
}
