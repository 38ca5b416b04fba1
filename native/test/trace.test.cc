// The stages that operations note down for the timeline.

#include "group/trace.h"

#include "check.h"
#include "group/worker.h"
#include "shm/shm-group.h"
#include "world.h"

using namespace hvd;
using world::Members;
using world::patient;

namespace {

Operation allreduce_in_place(std::vector<float>& data) {
  Operation operation;
  operation.kind = Kind::allreduce;
  operation.dtype = DType::float32;
  operation.fingerprint = 1;
  auto* bytes = reinterpret_cast<char*>(data.data());
  operation.buffers = {{bytes, bytes, data.size() * 4}};
  return operation;
}

void check_order(const Trace& trace) {
  CHECK(trace.count >= 3);
  CHECK(trace.marks[0].stage == Stage::posted);
  CHECK(trace.marks[1].stage == Stage::agreed);
  CHECK(trace.marks[trace.count - 1].stage == Stage::over);
  for (size_t i = 1; i < trace.count; i++) CHECK(trace.marks[i].at_ns >= trace.marks[i - 1].at_ns);
}

}  // namespace

TEST("an operation notes down its stages in order, at every size and on every way") {
  for (bool copies : {false, true})
    for (int size : {2, 3}) {
      Members members(size, copies);
      for (size_t count : {8, 2000, 20'000, 3'000'000})
        members.together([&](int me) {
          std::vector<float> data(count, 1.0f);
          Operation operation = allreduce_in_place(data);
          Trace trace;
          members.group(me).set_trace(&trace);
          CHECK(members.group(me).run(operation, patient()) == Status::done);
          members.group(me).set_trace(nullptr);
          check_order(trace);
          CHECK(trace.count <= Trace::max_marks);
          CHECK_EQ(data[count - 1], static_cast<float>(size));
        });
    }
}

TEST("a batch of the worker has its own trace, and a group without one records nothing") {
  Members members(2, false);
  members.together([&](int me) {
    std::vector<float> data(100, 1.0f), more(100, 1.0f);
    Batch batch;
    batch.operations = {allreduce_in_place(data), allreduce_in_place(more)};
    batch.operations[1].fingerprint = 2;
    batch.patience = patient();
    batch.trace = std::make_unique<Trace>();
    Worker worker(members.group(me), [](Batch*) {});
    worker.submit(&batch);
    CHECK(worker.wait(&batch, 0) == Status::done);
    check_order(*batch.trace);
    int rounds = 0;
    for (size_t i = 0; i < batch.trace->count; i++) rounds += batch.trace->marks[i].stage == Stage::posted;
    CHECK_EQ(rounds, 2);
    const size_t before = batch.trace->count;
    Batch plain;
    plain.operations = {allreduce_in_place(data)};
    plain.patience = patient();
    worker.submit(&plain);
    CHECK(worker.wait(&plain, 0) == Status::done);
    CHECK_EQ(batch.trace->count, before);
  });
}

TEST("a trace that is full still knows when the operation was over") {
  Trace trace;
  trace.add(Stage::posted, 0);
  for (int i = 1; i < 1000; i++) trace.add(i % 2 ? Stage::pack : Stage::reduce, i);
  trace.add(Stage::over, 1000);
  CHECK_EQ(trace.count, Trace::max_marks);
  CHECK(trace.marks[Trace::max_marks - 2].stage == Stage::repeats);
  CHECK_EQ(trace.marks[Trace::max_marks - 1].at_ns, 1000);
}
