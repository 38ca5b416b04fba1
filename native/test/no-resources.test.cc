// What happens when memory, threads or system calls are missing: an answer, never the end of the process.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <new>
#include <system_error>

#include "check.h"
#include "group/worker.h"
#include "mpi/patient-mutex.h"
#include "world.h"

using namespace hvd;
using world::patient;

namespace {

// A group without memory for what it should post.
class PoorGroup final : public Group {
 public:
  PoorGroup() : Group(1, 0) {}
  bool is_poor = true;
  void start(const Operation&) override {
    if (is_poor) throw std::bad_alloc();
  }
  Status arrive(const Patience&) override { return Status::done; }
  Status execute(Operation&, const Patience&) override { return Status::done; }
  Status check_idle() override { return Status::done; }
  bool anyone_started() override { return true; }
  bool everyone_arrived() override { return true; }
  void nap(int64_t) override {}
  std::vector<int> missing() const override { return {}; }
};

// In a child, in which these system calls fail with `error`. The child's exit code is what `part` returns.
int child_without(const std::vector<long>& calls, int error, const std::function<int()>& part) {
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (long call : calls) {
      filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1));
      filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)));
    }
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(99);
    _exit(part());
  }
  int status = 0;
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  CHECK(WIFEXITED(status));
  return WEXITSTATUS(status);
}

int error_of_control(const world::Block& block) {
  try {
    Control control(block.fd(), 0, 1);
  } catch (const std::system_error& error) {
    return error.code().value();
  }
  return 0;
}

}  // namespace

TEST("the control block of a process that can have no thread throws; nothing ends the process") {
  world::Block block(1);
  CHECK_EQ(child_without({SYS_clone, SYS_clone3}, EAGAIN, [&] { return error_of_control(block); }), EAGAIN);
}

TEST("the control block of a process whose death the kernel would not report throws") {
  world::Block block(1);
  CHECK_EQ(child_without({SYS_set_robust_list}, EPERM, [&] { return error_of_control(block); }), EPERM);
  CHECK_EQ(child_without({}, EPERM, [&] { return error_of_control(block); }), 0);
}

TEST("a lack of memory before the post is a status, and the group can be used again") {
  PoorGroup group;
  Operation operation;
  CHECK_EQ(group.run(operation, patient()), Status::no_memory);
  group.is_poor = false;
  CHECK_EQ(group.run(operation, patient()), Status::done);
}

TEST("the same on the group's thread, for the first operation of a batch and for a later one") {
  PoorGroup group;
  Worker worker(group, [](Batch*) {});
  Batch batch;
  batch.patience = patient();
  batch.operations.resize(2);
  worker.submit(&batch);
  CHECK_EQ(worker.wait(&batch, 0), Status::no_memory);
}

TEST("a thread that waits for the library of another one gives up when it is told to, and gets it otherwise") {
  PatientMutex mutex;
  CHECK(mutex.lock([] { return false; }));
  std::atomic<bool> has_failed{false};
  std::atomic<int> outcome{-1};
  std::thread waiting([&] { outcome = mutex.lock([&] { return has_failed.load(); }) ? 1 : 0; });
  usleep(20'000);
  CHECK_EQ(outcome.load(), -1);
  has_failed = true;
  waiting.join();
  CHECK_EQ(outcome.load(), 0);
  std::thread next([&] { outcome = mutex.lock([] { return false; }) ? 1 : 0; });
  mutex.unlock();
  next.join();
  CHECK_EQ(outcome.load(), 1);
  mutex.unlock();
}
