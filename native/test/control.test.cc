// Who is there, who left, who died: the life word of real processes.

#include "group/control.h"

#include <signal.h>
#include <sys/wait.h>

#include "check.h"
#include "world.h"

using hvd::Control;
using Presence = hvd::Control::Presence;

namespace {

// A child that is `rank` and says so through a pipe; then it waits to be killed, or leaves or just ends.
class Child {
 public:
  enum class End { killed, leaves, exits };
  Child(const world::Block& block, int rank, End end) {
    int pipes[2];
    CHECK_EQ(pipe(pipes), 0);
    pid_ = fork();
    CHECK(pid_ >= 0);
    if (pid_ == 0) {
      {
        Control control(block.fd(), rank, 2);
        if (write(pipes[1], "!", 1) != 1) _exit(2);
        if (end == End::killed)
          for (;;) pause();
        if (end == End::exits) _exit(0);
        block.leave(rank);
      }
      _exit(0);
    }
    char sign;
    CHECK_EQ(read(pipes[0], &sign, 1), ssize_t{1});
    close(pipes[0]);
    close(pipes[1]);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void kill_it() const { kill(pid_, SIGKILL); }

 private:
  pid_t pid_;
};

// With a deadline, and without reaping: the kernel tells before anybody has waited for the child.
Presence later(const Control& control, int rank) {
  for (int64_t until = hvd::monotonic_ns() + 20 * world::second_ns; hvd::monotonic_ns() < until;) {
    Presence presence = control.presence(rank);
    if (presence != Presence::here) return presence;
    usleep(200);
  }
  return Presence::here;
}

}  // namespace

// Processes are forked first: a process with threads is not to be forked.
TEST("a process that is killed is dead without anybody waiting for it") {
  world::Block block(2);
  Child child(block, 1, Child::End::killed);
  Control control(block.fd(), 0, 2);
  CHECK(control.presence(1) == Presence::here);
  CHECK(control.presence(0) == Presence::here);
  child.kill_it();
  CHECK(later(control, 1) == Presence::dead);
  block.leave(0);
}

TEST("a process that ends without a word is dead") {
  world::Block block(2);
  Child child(block, 1, Child::End::exits);
  Control control(block.fd(), 0, 2);
  CHECK(later(control, 1) == Presence::dead);
  block.leave(0);
}

TEST("a process that leaves has left, and is not dead") {
  world::Block block(2);
  Child child(block, 1, Child::End::leaves);
  Control control(block.fd(), 0, 2);
  CHECK(later(control, 1) == Presence::left);
  block.leave(0);
}

TEST("one that closes its transport without leaving counts as dead, though its process lives on") {
  world::Block block(2);
  Control control(block.fd(), 0, 2);
  { Control other(block.fd(), 1, 2); }
  CHECK(control.presence(1) == Presence::dead);
}

TEST("the launcher's word that a process has ended is enough") {
  world::Block block(2);
  Control control(block.fd(), 0, 2);
  CHECK(control.presence(1) == Presence::here);
  block.exit_kind(1).store(1);
  CHECK(control.presence(1) == Presence::dead);
}

TEST("a failure counts when it is written, not while it is being written") {
  world::Block block(1);
  Control control(block.fd(), 0, 1);
  CHECK(!control.failed());
  block.word(8).store(1);
  CHECK(!control.failed());
  block.fail();
  CHECK(control.failed());
}
