// The leaders' tables of sizes are checked before any memory is allocated or read by them.

#include <cerrno>
#include <cstring>

#include "check.h"
#include "hierarchical/hierarchical-group.h"
#include "world.h"

using namespace hvd;
using world::patient;

namespace {

// The leaders of two hosts with one member each: this one, and one that is only a message.
class Forged final : public Group {
 public:
  explicit Forged(std::function<void(std::vector<uint64_t>&)> forge) : Group(2, 0), forge_(std::move(forge)) {}
  void start(const Operation&) override {}
  Status arrive(const Patience&) override { return Status::done; }
  Status execute(Operation& operation, const Patience&) override {
    std::vector<uint64_t> words(operation.buffers[0].bytes / 8);
    std::memcpy(words.data(), operation.buffers[0].in, words.size() * 8);
    words.resize(words.size() * 2, 0);
    forge_(words);
    operation.received = {words.size() * 4, words.size() * 4};
    if (!operation.allocate_result()) return Status::no_memory;
    std::memcpy(operation.result, words.data(), words.size() * 8);
    return Status::done;
  }
  Status check_idle() override { return Status::done; }
  bool anyone_started() override { return true; }
  bool everyone_arrived() override { return true; }
  void nap(int64_t) override {}
  std::vector<int> missing() const override { return {}; }

 private:
  std::function<void(std::vector<uint64_t>&)> forge_;
};

struct Answer {
  Status status;
  int culprit, error;
  bool has_allocated;
};

Answer run(Kind kind, const std::function<void(std::vector<uint64_t>&)>& forge) {
  world::Block block(2);
  world::MemoryFile segment(ShmGroup::segment_bytes(1));
  Control control(block.fd(), 0, 2);
  Arena arena;
  HierarchicalGroup group(Placement({0, 1}), 0, {0, 1}, control, &arena,
                          std::make_unique<ShmGroup>(segment.fd(), std::vector<int>{0}, 0, control, &arena),
                          std::make_unique<Forged>(forge), nullptr);
  std::vector<char> data(16, 1), result;
  bool has_allocated = false;
  Operation operation;
  operation.kind = kind;
  operation.fingerprint = 3;
  operation.buffers = {{data.data(), data.data(), data.size()}};
  if (kind == Kind::alltoall) operation.counts = {8, 8};
  operation.allocate = [](void* context, size_t) -> char* {
    *static_cast<bool*>(context) = true;
    return nullptr;
  };
  operation.allocate_context = &has_allocated;
  const Status status = group.run(operation, patient());
  block.leave(0);
  return {status, group.culprit(), group.errno_value(), has_allocated};
}

void check_rejected(const Answer& answer, int culprit) {
  CHECK_EQ(answer.status, Status::system_error);
  CHECK_EQ(answer.error, EPROTO);
  CHECK_EQ(answer.culprit, culprit);
  CHECK(!answer.has_allocated);
}

}  // namespace

// alltoall: the words of the table are what 0 sends to 0 and 1, and what 1 sends to 0 and 1.
TEST("alltoall: a size that no memory has is an error that names the leader of that host") {
  check_rejected(run(Kind::alltoall, [](auto& words) { words[2] = uint64_t{1} << 60; }), 1);
  check_rejected(run(Kind::alltoall, [](auto& words) { words[3] = ~uint64_t{0}; }), 1);
}

TEST("alltoall: sizes that differ from what this member sends are an error that names its leader") {
  check_rejected(run(Kind::alltoall, [](auto& words) { words[1] = 4096; }), 0);
}

TEST("alltoall: sizes that fit are accepted") {
  const Answer answer = run(Kind::alltoall, [](auto& words) { words[2] = 8; });
  CHECK_EQ(answer.status, Status::no_memory);  // the allocation of this test
  CHECK(answer.has_allocated);
}

// allgather: its own size with its 16 bytes, twice.
TEST("allgather: a size that differs from what this member has is an error that names its leader") {
  check_rejected(run(Kind::allgather, [](auto& words) { words[0] = 4096; }), 0);
}
