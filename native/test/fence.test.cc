// Hands off: writers that were stopped at the worst moment, and the fence that waits for them. See NOTE [Hands off].

#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <latch>
#include <string>

#include "check.h"
#include "group/touch.h"
#include "world.h"

using hvd::Control;
using hvd::FenceLimits;
using hvd::Status;
using hvd::Touch;

namespace {

constexpr int64_t ms_ns = 1'000'000;
// A fence that only looks, and one that waits as long as it takes.
constexpr FenceLimits brief{0, 20 * ms_ns}, patient{0, 60 * world::second_ns};

std::atomic<uint32_t>& rank_word(const world::Block& block, int rank, size_t offset) {
  return block.word(world::page_bytes * static_cast<size_t>(1 + rank) + offset);
}

uint32_t start_ticks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text, field;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  for (int i = 0; i < 20; i++) fields >> field;
  return static_cast<uint32_t>(std::stoull(field));
}

void attach(const world::Block& block, int rank, pid_t pid, uint32_t ticks) {
  rank_word(block, rank, 4).store(static_cast<uint32_t>(pid));
  rank_word(block, rank, 24).store(ticks);
}

// The hook of Touch for threads that want to be held: they say so and wait.
std::latch* held = nullptr;
std::latch* released = nullptr;
thread_local bool is_to_be_held = false;

void hold() {
  if (!is_to_be_held) return;
  is_to_be_held = false;
  held->count_down();
  released->wait();
}

struct Holding {
  std::latch reached{1}, freed{1};
  Holding() {
    held = &reached;
    released = &freed;
    Touch::before_write.store(hold);
  }
  ~Holding() { Touch::before_write.store(nullptr); }
};

// A process that is rank 1 and touches; `meanwhile` runs with the touch begun. Forked before there are threads.
class Toucher {
 public:
  Toucher(const world::Block& block, void (*meanwhile)()) {
    int pipes[2];
    CHECK_EQ(pipe(pipes), 0);
    pid_ = fork();
    CHECK(pid_ >= 0);
    if (pid_ == 0) {
      std::atomic<uint32_t> gone{0};
      auto* control = new Control(block.fd(), 1, 2);
      auto* touch = new Touch(*control, gone);
      if (!*touch || write(pipes[1], "!", 1) != 1) _exit(2);
      meanwhile();
      _exit(0);
    }
    char sign;
    CHECK_EQ(read(pipes[0], &sign, 1), ssize_t{1});
    close(pipes[0]);
    close(pipes[1]);
    attach(block, 1, pid_, start_ticks(pid_));
  }
  ~Toucher() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void kill_it() const { kill(pid_, SIGKILL); }
  pid_t pid() const { return pid_; }
  char state() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string text;
    std::getline(file, text);
    return text[text.rfind(')') + 2];
  }
  void wait_for_state(char wanted) const {
    for (int64_t until = hvd::monotonic_ns() + 20 * world::second_ns; state() != wanted; usleep(200))
      CHECK(hvd::monotonic_ns() < until);
  }

 private:
  pid_t pid_;
};

void sleep_for_ever() {
  for (;;) pause();
}

}  // namespace

TEST("a process that died in the middle of a write is no writer any more, although it is still counted") {
  world::Block block(2);
  Toucher writer(block, sleep_for_ever);
  Control control(block.fd(), 0, 2);
  CHECK_EQ(control.fence(brief), 1);
  writer.kill_it();  // and nobody reaps it
  CHECK_EQ(control.fence(patient), -1);
  CHECK_EQ(rank_word(block, 1, 384).load(), 1u);
  block.leave(0);
}

TEST("a process of which one thread has ended is alive, whatever the launcher has recorded") {
  world::Block block(2);
  Toucher writer(block, [] { pthread_exit(nullptr); });  // the thread of its life word stays
  Control control(block.fd(), 0, 2);
  writer.wait_for_state('Z');
  block.exit_kind(1).store(1);  // of a wrapper around it
  CHECK_EQ(control.fence(brief), 1);
  writer.kill_it();
  CHECK_EQ(control.fence(patient), -1);
  block.leave(0);
}

TEST("a stopped writer is killed when its time is over, and marked as killed by the fence") {
  world::Block block(2);
  Toucher writer(block, [] { raise(SIGSTOP); });
  Control control(block.fd(), 0, 2);
  writer.wait_for_state('T');
  CHECK_EQ(control.fence(brief), 1);
  CHECK_EQ(rank_word(block, 1, 388).load(), 0u);
  CHECK_EQ(control.fence({ms_ns, 60 * world::second_ns}), -1);
  CHECK_EQ(rank_word(block, 1, 388).load(), 1u);
  siginfo_t end{};
  CHECK_EQ(waitid(P_PID, static_cast<id_t>(writer.pid()), &end, WEXITED | WNOWAIT), 0);
  CHECK_EQ(end.si_status, SIGKILL);
  block.leave(0);
}

TEST("a process that has got the number of a dead writer is not waited for, and not killed") {
  world::Block block(2);
  Toucher other(block, sleep_for_ever);
  attach(block, 1, other.pid(), start_ticks(other.pid()) + 1);
  Control control(block.fd(), 0, 2);
  CHECK_EQ(control.fence({1, 60 * world::second_ns}), -1);
  CHECK_EQ(kill(other.pid(), 0), 0);
  CHECK(other.state() != 'Z');
  block.leave(0);
}

namespace {

using End = std::function<void(world::Members&)>;
using Wait = std::function<int(world::Members&, const FenceLimits&)>;

// Two members reduce; member 1 is held between its look and its copy into the memory of member 0. `end` makes the operation of
// member 0 end, which then uses its memory again after `wait`. `expected` is how member 1 ends.
void with_held_writer(bool in_arena, Status expected, const End& end, const Wait& wait) {
  constexpr size_t elements = 512 * 1024;
  Holding holding;
  world::Members world(2, !in_arena);
  std::vector<std::vector<float>> ordinary(2, std::vector<float>(elements, 1.0f));
  auto memory = [&](int i) {
    return in_arena ? static_cast<float*>(world.arena(i).allocate(elements * sizeof(float)))
                    : ordinary[static_cast<size_t>(i)].data();
  };
  float* const mine = memory(0);
  float* const theirs = memory(1);
  auto run = [&](int i, float* data) {
    hvd::Operation operation;
    operation.kind = hvd::Kind::allreduce;
    operation.dtype = hvd::DType::float32;
    operation.buffers.assign(1, {reinterpret_cast<char*>(data), reinterpret_cast<char*>(data), elements * sizeof(float)});
    return world.group(i).run(operation, world::patient());
  };
  // The first operation on new arena memory is copied through the segment; from the second on it is written directly.
  world::together(2, [&](int i) { run(i, i == 0 ? mine : theirs); });
  Status of_writer = Status::done, of_reader = Status::done;
  std::thread writer([&] {
    is_to_be_held = true;
    of_writer = run(1, theirs);
  });
  std::thread reader([&] { of_reader = run(0, mine); });
  holding.reached.wait();
  end(world);
  reader.join();
  const int with_writer = wait(world, brief);
  holding.freed.count_down();
  const int without_writer = wait(world, patient);
  std::fill(mine, mine + elements, 7.0f);  // used again
  writer.join();
  CHECK(of_reader != Status::done);
  CHECK_EQ(of_writer, expected);
  CHECK_EQ(with_writer, 1);
  CHECK_EQ(without_writer, -1);
  for (size_t i = 0; i < elements; i++) CHECK_EQ(mine[i], 7.0f);
}

void fail(world::Members& world) { world.block.fail(); }
int fence(world::Members& world, const FenceLimits& limits) { return world.members[0].control->fence(limits); }

}  // namespace

TEST("a writer that is paused between its look and its copy is waited for: alloc() memory") {
  with_held_writer(true, Status::failed, fail, fence);
}

TEST("a writer that is paused between its look and its copy is waited for: ordinary memory") {
  with_held_writer(false, Status::failed, fail, fence);
}

TEST("a member that leaves its group in the middle of an operation waits for the writer, and the job goes on") {
  with_held_writer(
      true, Status::peer_left, [](world::Members& world) { world.group(0).stop(); },
      [](world::Members& world, const FenceLimits& limits) { return world.group(0).withdraw(limits.give_up_after_ns); });
}

TEST("a member that leaves its group between operations waits for nobody") {
  world::Members world(2);
  std::atomic<uint32_t> gone{0};
  const Touch other(*world.members[1].control, gone);
  CHECK_EQ(world.group(0).withdraw(60 * world::second_ns), -1);
}

TEST("eight writers against the fence: when it is over, none of them writes") {
  constexpr int writers = 8;
  Touch::before_write.store([] { sched_yield(); });
  for (int round = 0; round < 20; round++) {
    world::Block block(1 + writers);
    std::vector<std::unique_ptr<Control>> controls;
    for (int i = 0; i <= writers; i++) controls.push_back(std::make_unique<Control>(block.fd(), i, 1 + writers));
    std::atomic<uint32_t> gone{0};
    std::vector<std::atomic<int>> memory(writers);
    world::together(1 + writers, [&](int i) {
      if (i < writers) {
        const auto at = static_cast<size_t>(i);
        for (;;) {
          const Touch touch(*controls[at + 1], gone);
          if (!touch) return;
          memory[at].store(1, std::memory_order_relaxed);
        }
      }
      while (memory[static_cast<size_t>(round) % writers].load(std::memory_order_relaxed) == 0) sched_yield();
      CHECK_EQ(controls[0]->fence(patient), -1);
      for (auto& each : memory) each.store(2, std::memory_order_relaxed);
    });
    for (auto& each : memory) CHECK_EQ(each.load(), 2);
    for (int i = 0; i <= writers; i++) {
      CHECK_EQ(rank_word(block, i, 384).load(), 0u);
      block.leave(i);
    }
  }
  Touch::before_write.store(nullptr);
}
