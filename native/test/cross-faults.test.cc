// How rounds over sockets end badly: disagreement, members that do not come, die, leave or talk nonsense.

#include <linux/filter.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <random>

#include "check.h"
#include "cross/cross-group.h"
#include "group/worker.h"
#include "mesh-world.h"

using namespace hvd;
using world::Block;
using world::Crossing;
using world::patient;
using world::second_ns;
using world::Wire;
using world::Wires;

namespace {

Patience until(int64_t timeout_ns, int64_t stall_ns = 0) {
  Patience patience{};
  patience.timeout_ns = timeout_ns;
  patience.stall_ns = stall_ns;
  return patience;
}

Operation barrier(uint64_t fingerprint = 0) {
  Operation operation;
  operation.fingerprint = fingerprint;
  return operation;
}

Operation allreduce_of(std::vector<float>& data, uint64_t fingerprint = 1) {
  Operation operation;
  operation.kind = Kind::allreduce;
  operation.dtype = DType::float32;
  operation.fingerprint = fingerprint;
  auto* bytes = reinterpret_cast<char*>(data.data());
  operation.buffers = {{bytes, bytes, data.size() * 4}};
  return operation;
}

bool soon(const std::function<bool()>& condition) {
  for (int64_t end = monotonic_ns() + 30 * second_ns; monotonic_ns() < end; usleep(500))
    if (condition()) return true;
  return false;
}

}  // namespace

TEST("a round in which members want different things touches nothing, and the next one works") {
  for (int size : {2, 3, 5}) {
    Crossing crossing(size);
    for (size_t count : {1, 2000, 100'000})
      crossing.together([&](int me) {
        std::vector<float> data(me == 0 ? count : count / 2 + 1, 1), before = data;
        Operation differing = allreduce_of(data, me == 0 ? 7 : 8);
        CHECK(crossing.group(me).run(differing, patient()) == Status::mismatch);
        CHECK(data == before);
        std::vector<float> same(count, 1);
        Operation agreed = allreduce_of(same, 9);
        CHECK(crossing.group(me).run(agreed, patient()) == Status::done);
        CHECK_EQ(same[0], static_cast<float>(size));
      });
  }
}

TEST("who waits passively sees that another has begun") {
  Crossing crossing(3);
  CHECK(!crossing.group(0).anyone_started());
  crossing.group(1).start(barrier());
  crossing.group(0).nap(30 * second_ns);
  CHECK(crossing.group(0).anyone_started());
  crossing.together([&](int me) {
    Operation operation = barrier();
    if (me != 1) CHECK(crossing.group(me).run(operation, patient()) == Status::done);
    else CHECK(crossing.group(me).resume(operation, patient()) == Status::done);
  });
  CHECK(!crossing.group(0).anyone_started());
}

TEST("passive batches of a worker run when another member begins") {
  Crossing crossing(2);
  Worker worker(crossing.group(0), [](Batch*) {});
  Batch batch;
  batch.patience = patient();
  batch.passive = true;
  batch.operations = {barrier(5)};
  worker.submit(&batch);
  CHECK(worker.wait(&batch, 5'000'000) == Status::stalled);
  CHECK(!crossing.group(1).anyone_started());
  Operation operation = barrier(5);
  CHECK(crossing.group(1).run(operation, patient()) == Status::done);
  CHECK(worker.wait(&batch, 0) == Status::done);
}

TEST("after a passive batch was taken back the caller has the group for itself, while others begin rounds") {
  Crossing crossing(2);
  Worker worker(crossing.group(0), [](Batch*) {});
  const int times = 2000;
  std::thread other([&] {
    for (int i = 0; i < times; i++) {
      Operation operation = barrier(7);
      if (crossing.group(1).run(operation, patient()) != Status::done) break;  // the other side says so
    }
  });
  int rounds = 0;
  bool fine = true;
  while (fine && rounds < times) {
    Batch batch;
    batch.patience = patient();
    batch.passive = true;
    batch.operations = {barrier(7)};
    worker.submit(&batch);
    if (worker.take_back().empty()) {  // the worker was quicker: it runs the round
      fine = worker.wait(&batch, 0) == Status::done;
      rounds++;
    }
    if (!fine || rounds == times) break;
    Operation operation = barrier(7);
    fine = crossing.group(0).run(operation, patient()) == Status::done;
    rounds++;
  }
  other.join();
  CHECK(fine);
  CHECK_EQ(rounds, times);
}

TEST("everyone has arrived when everyone has posted, without anybody waiting") {
  Crossing crossing(2);
  std::vector<float> a(1000, 1), b(1000, 2);
  Operation first = allreduce_of(a), second = allreduce_of(b);
  crossing.group(0).start(first);
  CHECK(!crossing.group(0).everyone_arrived());
  crossing.group(1).start(second);
  CHECK(soon([&] { return crossing.group(0).everyone_arrived() && crossing.group(1).everyone_arrived(); }));
  CHECK(crossing.group(0).resume(first, patient()) == Status::done);
  CHECK(crossing.group(1).resume(second, patient()) == Status::done);
  CHECK_EQ(a[999], 3.0f);
  CHECK_EQ(b[0], 3.0f);
}

TEST("a wait ends at its deadline, and says who has not come") {
  Crossing crossing(3);
  crossing.group(1).start(barrier());
  Operation operation = barrier();
  CHECK(crossing.group(0).run(operation, until(20'000'000)) == Status::timeout);
  CHECK(crossing.group(0).missing() == std::vector<int>{2});
  CHECK_EQ(crossing.group(0).culprit(), 2);
}

TEST("a wait that lasts says so again and again, and goes on to its end") {
  Crossing crossing(2);
  Operation operation = barrier();
  CHECK(crossing.group(0).run(operation, until(30 * second_ns, 2'000'000)) == Status::stalled);
  CHECK(crossing.group(0).resume(operation, until(30 * second_ns, 2'000'000)) == Status::stalled);
  CHECK(crossing.group(0).missing() == std::vector<int>{1});
  crossing.group(1).start(barrier());
  CHECK(crossing.group(0).resume(operation, patient()) == Status::done);
}

TEST("stop() ends a wait, for members and for bytes") {
  Crossing crossing(2);
  std::thread stopper([&] {
    usleep(5000);
    crossing.group(0).stop();
  });
  Operation operation = barrier();
  CHECK(crossing.group(0).run(operation, patient()) == Status::stopped);
  stopper.join();

  Crossing other(2);
  std::vector<float> data(1'000'000), theirs(1'000'000);
  Operation large = allreduce_of(data);
  other.group(1).start(allreduce_of(theirs));  // agrees, but does not go on
  std::thread later([&] {
    usleep(20'000);
    other.group(0).stop();
  });
  CHECK(other.group(0).run(large, patient()) == Status::stopped);
  later.join();
}

TEST("a deadline in the middle of an operation leaves the round as it is, with nobody missing") {
  Crossing crossing(2);
  std::vector<float> data(1'000'000), theirs(1'000'000);
  Operation large = allreduce_of(data);
  crossing.group(1).start(allreduce_of(theirs));
  CHECK(crossing.group(0).run(large, until(30'000'000)) == Status::timeout);
  CHECK(crossing.group(0).missing().empty());
  CHECK_EQ(crossing.group(0).culprit(), 1);
}

TEST("the failure of the job ends a wait, and a late member does not run on what others have given up") {
  Crossing crossing(2);
  std::thread teller([&] {
    usleep(5000);
    crossing.block.fail();
  });
  Operation operation = barrier();
  CHECK(crossing.group(0).run(operation, patient()) == Status::failed);
  teller.join();
  CHECK(crossing.group(1).run(operation, patient()) == Status::failed);
}

TEST("a connection that ends is a loss; if its member has left, that; if the job has failed, that") {
  for (int way = 0; way < 3; way++) {
    Crossing crossing(2, -1, Wire::tcp);
    std::thread ender([&] {
      usleep(2000);
      crossing.groups[1].reset();
      usleep(50'000);  // the control block learns of it later
      if (way == 1) crossing.block.leave(1);
      if (way == 2) crossing.block.fail();
    });
    Operation operation = barrier();
    const Status status = crossing.group(0).run(operation, patient());
    ender.join();
    CHECK(status == (way == 0 ? Status::peer_lost : way == 1 ? Status::peer_left : Status::failed));
    CHECK_EQ(crossing.group(0).culprit(), way == 2 ? crossing.group(0).culprit() : 1);
  }
}

TEST("a member that has finished and left disturbs nobody who is still at it") {
  Crossing crossing(3, -1, Wire::tcp);
  crossing.together([&](int me) {
    std::vector<float> data(50'000, 1);
    Operation operation = allreduce_of(data);
    if (me == 2) usleep(30'000);
    CHECK(crossing.group(me).run(operation, patient()) == Status::done);
    CHECK_EQ(data[0], 3.0f);
    crossing.block.leave(me);
    crossing.groups[static_cast<size_t>(me)].reset();
  });
}

TEST("the loss of a member that is waited for passively is noticed") {
  Crossing crossing(2);
  CHECK(crossing.group(0).check_idle() == Status::done);
  crossing.groups[1].reset();
  CHECK(!crossing.group(0).anyone_started());
  CHECK(crossing.group(0).check_idle() == Status::peer_lost);
  CHECK_EQ(crossing.group(0).culprit(), 1);
}

TEST("a process that is killed in the middle of an operation is lost for all others, at once") {
  constexpr int size = 3;
  Block block(size);
  Wires wires(size, Wire::tcp);
  std::vector<pid_t> children;
  for (int me = 0; me < size; me++) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      for (int other = 0; other < size; other++)
        if (other != me) wires.close_of(other);
      Control control(block.fd(), me, size);
      auto mesh = wires.mesh(me, control);
      wires.close_of(me);
      CrossGroup group(mesh, std::make_shared<TcpTransport>(mesh), 0);
      std::vector<float> data(3'000'000);
      for (int n = 0; n < 10'000; n++) {
        if (me == 1 && n == 5) {  // agrees, sends something, and is gone
          group.start(allreduce_of(data));
          kill(getpid(), SIGKILL);
        }
        Operation operation = allreduce_of(data);
        const Status status = group.run(operation, patient());
        // Who hears of it by another one that has given up names that one.
        if (status != Status::done) _exit(status == Status::peer_lost && group.culprit() != me ? 7 : 8);
      }
      _exit(9);
    }
    children.push_back(child);
  }
  for (int me = 0; me < size; me++) wires.close_of(me);
  const int64_t since = monotonic_ns();
  for (int me = 0; me < size; me++) {
    int status = 0;
    CHECK_EQ(waitpid(children[static_cast<size_t>(me)], &status, 0), children[static_cast<size_t>(me)]);
    if (me == 1) CHECK(WIFSIGNALED(status));
    else CHECK_EQ(WEXITSTATUS(status), 7);
  }
  CHECK(monotonic_ns() - since < 60 * second_ns);
}

TEST("garbage in place of a post, and a post of another round, are an error that names the sender") {
  std::mt19937 random(1);
  for (int n = 0; n < 200; n++) {
    Block block(2);
    Wires wires(2, Wire::pair);
    Control control(block.fd(), 0, 2);
    auto mesh = wires.mesh(0, control);
    CrossGroup group(mesh, std::make_shared<TcpTransport>(mesh), 1024);
    Header header{frame_magic, FrameKind::post, flag::carries, 1, 1, 5, 16};
    std::vector<char> bytes(sizeof header + random() % 300);
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (n % 2 == 0) {  // a header that is right but for one field
      if (n % 12 == 0) header.magic++;
      if (n % 12 == 2) header.kind = FrameKind::data;
      if (n % 12 == 4) header.sender = 0;
      if (n % 12 == 6) header.number = random() % 2 ? 0 : 2;
      if (n % 12 == 8) header.bytes = 1025 + random();
      if (n % 12 == 10) header.bytes = ~uint64_t{0};
      std::memcpy(bytes.data(), &header, sizeof header);
    }
    const int peer = wires.sockets[1][0];
    CHECK_EQ(write(peer, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    Operation operation = barrier(5);
    CHECK(group.run(operation, patient()) == Status::system_error);
    CHECK_EQ(group.errno_value(), EPROTO);
    CHECK_EQ(group.culprit(), 1);
    block.leave(0);
  }
}

TEST("equal fingerprints with other sizes, and garbage in place of data, are errors as well") {
  for (int way = 0; way < 2; way++) {
    Block block(2);
    Wires wires(2, Wire::pair);
    Control control(block.fd(), 0, 2);
    auto mesh = wires.mesh(0, control);
    CrossGroup group(mesh, std::make_shared<TcpTransport>(mesh), 1024);
    const size_t count = way == 0 ? 10 : 1000;
    std::vector<float> data(count, 1);
    const Header header{frame_magic, FrameKind::post, way == 0 ? flag::carries : uint8_t{0}, 1, 1, 5,
                        way == 0 ? uint64_t{20} : uint64_t{4000}};
    std::vector<char> bytes(sizeof header + 64, 'z');
    std::memcpy(bytes.data(), &header, sizeof header);
    CHECK_EQ(write(wires.sockets[1][0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    Operation operation = allreduce_of(data, 5);
    CHECK(group.run(operation, patient()) == Status::system_error);
    CHECK_EQ(group.errno_value(), EPROTO);
    CHECK_EQ(group.culprit(), 1);
    if (way == 0) CHECK_EQ(data[0], 1.0f);
    block.leave(0);
  }
}

TEST("nothing is sent to who accepted the connection before the ready byte has come; another byte is an error") {
  Block block(2);
  Wires wires(2, Wire::pair);
  Control control(block.fd(), 1, 2);
  auto mesh = wires.mesh(1, control);  // member 1 accepted the connection of member 0
  CrossGroup group(mesh, std::make_shared<TcpTransport>(mesh), 1024);
  group.start(barrier());
  CHECK(!group.everyone_arrived());
  const int peer = wires.sockets[0][1];
  char answer[64];
  CHECK_EQ(recv(peer, answer, sizeof answer, MSG_DONTWAIT), ssize_t{-1});
  CHECK_EQ(write(peer, &ready_byte, 1), ssize_t{1});
  CHECK(!group.everyone_arrived());
  CHECK_EQ(recv(peer, answer, sizeof answer, MSG_DONTWAIT), static_cast<ssize_t>(sizeof(Header)));

  Wires others(2, Wire::pair);
  auto deceived = others.mesh(1, control);
  CrossGroup second(deceived, std::make_shared<TcpTransport>(deceived), 1024);
  CHECK_EQ(write(others.sockets[0][1], "x", 1), ssize_t{1});
  Operation operation = barrier();
  CHECK(second.run(operation, patient()) == Status::system_error);
  CHECK_EQ(second.errno_value(), EPROTO);
  block.leave(1);
}

// What is sent fills the window of the one that does not read; its kernel still answers.
TEST("who reads nothing for longer than a silence may last is not lost, and gets everything in the end") {
  Block block(2);
  Wires wires(2, Wire::tcp);
  Control controls[2] = {{block.fd(), 0, 2}, {block.fd(), 1, 2}};
  const size_t bytes = 16 << 20;
  world::together(2, [&](int me) {
    TcpTransport transport(wires.mesh(me, controls[me], {}, second_ns));
    std::vector<char> data(bytes, static_cast<char>(me));
    if (me == 1) usleep(2'500'000);
    CHECK(transport.broadcast(data.data(), bytes, 0, patient()) == Status::done);
    CHECK_EQ(data[bytes - 1], 0);
  });
}

TEST("a peer whose kernel answers nothing is lost when the silence has lasted long enough") {
  Block block(2);
  Wires wires(2, Wire::tcp);
  Control control(block.fd(), 0, 2);
  TcpTransport transport(wires.mesh(0, control, {}, second_ns));
  sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};  // as if the cable had been cut
  sock_fprog program = {1, &drop};
  CHECK_EQ(setsockopt(wires.sockets[1][0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  std::vector<char> data(1000);
  CHECK(transport.broadcast(data.data(), data.size(), 0, patient()) == Status::done);  // the kernel has taken it
  const int64_t began = monotonic_ns();
  CHECK(transport.broadcast(data.data(), data.size(), 1, patient()) == Status::peer_lost);
  CHECK_EQ(transport.culprit(), 1);
  CHECK_EQ(transport.errno_value(), ETIMEDOUT);
  CHECK(monotonic_ns() - began >= second_ns);
}

TEST("a size that no tensor has is nonsense, whatever the fingerprint says") {
  Block block(2);
  Wires wires(2, Wire::pair);
  Control control(block.fd(), 0, 2);
  auto mesh = wires.mesh(0, control);
  CrossGroup group(mesh, std::make_shared<TcpTransport>(mesh), 1000);
  Header post{frame_magic, FrameKind::post, 0, 1, 1, 7, ~uint64_t{0} - 3};
  CHECK_EQ(send(wires.sockets[1][0], &post, sizeof post, 0), static_cast<ssize_t>(sizeof post));
  std::vector<float> data(2000);
  Operation operation = allreduce_of(data, 7);
  operation.kind = Kind::allgather;
  operation.allocate = [](void*, size_t) -> char* { check::fail(__FILE__, __LINE__, "nothing is to be allocated"); };
  CHECK(group.run(operation, patient()) == Status::system_error);
  CHECK_EQ(group.errno_value(), EPROTO);
}
