// A group's own thread: batches in order, taken back, halted by a mismatch, stopped.

#include "group/worker.h"

#include <cstddef>

#include "check.h"
#include "world.h"

using namespace hvd;
using world::Members;
using world::patient;

namespace {

// A worker for a member, and the order in which its batches ended.
struct Desk {
  std::mutex mutex;
  std::vector<Batch*> ended;
  Worker worker;
  explicit Desk(Group& group)
      : worker(group, [this](Batch* batch) {
          std::lock_guard lock(mutex);
          ended.push_back(batch);
        }) {}
  std::vector<Batch*> order() {
    std::lock_guard lock(mutex);
    return ended;
  }
};

Batch barriers(uint64_t fingerprint, size_t rounds = 1, bool passive = false) {
  Batch batch;
  batch.patience = patient();
  batch.passive = passive;
  batch.operations.resize(rounds);
  for (Operation& operation : batch.operations) operation.fingerprint = fingerprint++;
  return batch;
}

bool soon(const std::function<bool()>& condition) {
  for (int64_t until = monotonic_ns() + 30 * world::second_ns; monotonic_ns() < until; usleep(500))
    if (condition()) return true;
  return false;
}

}  // namespace

TEST("batches run in the order of submission, all rounds of each") {
  Members members(2);
  Desk a(members.group(0)), b(members.group(1));
  Batch batches[2][3] = {{barriers(1), barriers(10, 3), barriers(20)}, {barriers(1), barriers(10, 3), barriers(20)}};
  for (Batch& batch : batches[0]) a.worker.submit(&batch);
  for (Batch& batch : batches[1]) b.worker.submit(&batch);
  for (Batch& batch : batches[0]) CHECK(a.worker.wait(&batch, 0) == Status::done);
  for (Batch& batch : batches[1]) CHECK(b.worker.wait(&batch, 0) == Status::done);
  CHECK(soon([&] { return a.order().size() == 3; }));
  CHECK(a.order() == (std::vector<Batch*>{&batches[0][0], &batches[0][1], &batches[0][2]}));
}

TEST("a passive batch waits for others, can be taken back, and then runs when it is submitted again") {
  Members members(2);
  Desk a(members.group(0)), b(members.group(1));
  Batch passive = barriers(5, 1, true), later = barriers(6), other = barriers(5);
  a.worker.submit(&passive);
  a.worker.submit(&later);
  CHECK(a.worker.wait(&passive, 5'000'000) == Status::stalled);
  CHECK(!members.group(1).anyone_started());
  CHECK(a.worker.take_back() == (std::vector<Batch*>{&passive, &later}));
  a.worker.submit(&passive);
  b.worker.submit(&other);
  CHECK(a.worker.wait(&passive, 0) == Status::done);
  CHECK(b.worker.wait(&other, 0) == Status::done);
}

TEST("a mismatch halts the queue until what waits has been taken back") {
  Members members(2);
  Desk a(members.group(0)), b(members.group(1));
  Batch batches[2][2] = {{barriers(1), barriers(9)}, {barriers(2), barriers(9)}};
  for (Batch& batch : batches[0]) a.worker.submit(&batch);
  for (Batch& batch : batches[1]) b.worker.submit(&batch);
  CHECK(a.worker.wait(&batches[0][0], 0) == Status::mismatch);
  CHECK(b.worker.wait(&batches[1][0], 0) == Status::mismatch);
  CHECK(a.worker.wait(&batches[0][1], 5'000'000) == Status::stalled);
  CHECK(a.worker.take_back() == std::vector<Batch*>{&batches[0][1]});
  CHECK(b.worker.take_back() == std::vector<Batch*>{&batches[1][1]});
  a.worker.submit(&batches[0][1]);
  b.worker.submit(&batches[1][1]);
  CHECK(a.worker.wait(&batches[0][1], 0) == Status::done);
  CHECK(b.worker.wait(&batches[1][1], 0) == Status::done);
}

TEST("a batch that others may have seen is not returned") {
  Members members(2);
  Desk a(members.group(0)), b(members.group(1));
  Batch posted = barriers(3), other = barriers(3);
  a.worker.submit(&posted);
  CHECK(soon([&] { return members.group(1).anyone_started(); }));
  CHECK(a.worker.take_back().empty());
  b.worker.submit(&other);
  CHECK(a.worker.wait(&posted, 0) == Status::done);
  CHECK(b.worker.wait(&other, 0) == Status::done);
}

TEST("a worker that ends while a batch waits ends the batch, whether it has posted or not") {
  for (bool is_passive : {false, true}) {
    Members members(2);
    // Asleep: the worker has taken the batch.
    auto is_waiting = [&] { return members.segment.word(offsetof(hvd::Member, asleep)).load() != 0; };
    Batch batch = barriers(3, 1, is_passive), queued = barriers(4);
    std::vector<Batch*> ended;
    {
      Worker worker(members.group(0), [&](Batch* each) { ended.push_back(each); });
      worker.submit(&batch);
      worker.submit(&queued);
      CHECK(soon(is_waiting));
      CHECK(worker.wait(&batch, 5'000'000) == Status::stalled);
    }
    CHECK(ended == std::vector<Batch*>{&batch});
    CHECK(batch.status == Status::stopped);
    CHECK(!queued.finished);
  }
}

TEST("the loss of a member ends the batch that waits for it, passive or not") {
  for (bool is_passive : {false, true}) {
    Members members(2);
    Desk a(members.group(0));
    Batch batch = barriers(3, 1, is_passive);
    a.worker.submit(&batch);
    members.members[1].control.reset();  // as if its process had died
    CHECK(a.worker.wait(&batch, 0) == Status::peer_lost);
    CHECK_EQ(members.group(0).culprit(), 1);
  }
}
