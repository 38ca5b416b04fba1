// Groups over several "hosts": every host has a segment of its own, and another group stands in for the sockets between the
// hosts, so that what is tested here is the hierarchy alone. Every kind of operation, on every placement.

#include "hierarchical/hierarchical-group.h"

#include <cstring>
#include <string>

#include "check.h"
#include "shm/shm-group.h"
#include "world.h"

using namespace hvd;
using world::patient;

namespace {

char* allocate(void* context, size_t bytes) {
  auto& memory = *static_cast<std::vector<char>*>(context);
  memory.resize(bytes == 0 ? 1 : bytes);
  return memory.data();
}

// A cross transport over a segment.
class SegmentTransport final : public CrossTransport {
 public:
  explicit SegmentTransport(std::unique_ptr<Group> group) : group_(std::move(group)) {}
  Status allreduce(char* data, size_t count, DType dtype, Op op, const Patience& patience) override {
    return run(Kind::allreduce, {data, data, count * element_bytes(dtype)}, dtype, op, {}, 0, nullptr, patience);
  }
  Status reducescatter(char* data, const std::vector<size_t>& counts, DType dtype, Op op, const Patience& patience) override {
    size_t total = 0, start = 0;
    for (size_t i = 0; i < counts.size(); i++) {
      if (static_cast<int>(i) == group_->index()) start = total;
      total += counts[i];
    }
    const size_t element = element_bytes(dtype);
    std::vector<char> out(counts[static_cast<size_t>(group_->index())] * element + 1);
    Status status = run(Kind::reducescatter, {data, out.data(), total * element}, dtype, op, counts, 0, nullptr, patience);
    std::memcpy(data + start * element, out.data(), out.size() - 1);
    return status;
  }
  Status allgather(char* data, const std::vector<size_t>& bytes, const Patience& patience) override {
    size_t total = 0, start = 0;
    for (size_t i = 0; i < bytes.size(); i++) {
      if (static_cast<int>(i) == group_->index()) start = total;
      total += bytes[i];
    }
    std::vector<char> all;
    Status status = run(Kind::allgather, {data + start, nullptr, bytes[static_cast<size_t>(group_->index())]},
                        DType::uint8, Op::sum, {}, 0, &all, patience);
    std::memcpy(data, all.data(), total);
    return status;
  }
  Status broadcast(char* data, size_t bytes, int root, const Patience& patience) override {
    return run(Kind::broadcast, {data, data, bytes}, DType::uint8, Op::sum, {}, root, nullptr, patience);
  }
  Status alltoall(const char* in, const std::vector<size_t>& send, char* out, const std::vector<size_t>& receive,
                  const Patience& patience) override {
    size_t sent = 0, received = 0;
    for (size_t bytes : send) sent += bytes;
    for (size_t bytes : receive) received += bytes;
    std::vector<char> all;
    Status status = run(Kind::alltoall, {in, nullptr, sent}, DType::uint8, Op::sum, send, 0, &all, patience);
    if (received > 0) std::memcpy(out, all.data(), received);
    return status;
  }
  void stop() override { group_->stop(); }
  int culprit() const override { return group_->culprit(); }
  int errno_value() const override { return group_->errno_value(); }

 private:
  Status run(Kind kind, Buffer buffer, DType dtype, Op op, const std::vector<size_t>& counts, int root,
             std::vector<char>* result, const Patience& patience) {
    Operation operation;
    operation.kind = kind;
    operation.dtype = dtype;
    operation.op = op;
    operation.root = root;
    operation.buffers = {buffer};
    operation.counts.assign(counts.begin(), counts.end());
    operation.allocate = allocate;
    operation.allocate_context = result;
    return group_->run(operation, patience);
  }
  std::unique_ptr<Group> group_;
};

// `hosts[i]`: the host of member i.
struct Cluster {
  Placement placement;
  world::Block block;
  std::vector<std::unique_ptr<world::MemoryFile>> segments;
  std::vector<std::unique_ptr<Control>> controls;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<HierarchicalGroup>> groups;

  explicit Cluster(const std::vector<int>& hosts) : placement(hosts), block(static_cast<int>(hosts.size())) {
    const int size = placement.members();
    auto segment = [&](size_t members) {
      segments.push_back(std::make_unique<world::MemoryFile>(ShmGroup::segment_bytes(static_cast<int>(members))));
      return segments.back()->fd();
    };
    std::vector<int> inside, posts, data, ranks;
    for (const std::vector<int>& there : placement.hosts) inside.push_back(segment(there.size()));
    for (int l = 0; l < placement.lanes; l++) {
      posts.push_back(segment(placement.hosts.size()));
      data.push_back(segment(placement.hosts.size()));
    }
    for (int i = 0; i < size; i++) ranks.push_back(i);
    for (int i = 0; i < size; i++) {
      const int host = placement.host_of[static_cast<size_t>(i)], place = placement.local_of[static_cast<size_t>(i)];
      controls.push_back(std::make_unique<Control>(block.fd(), i, size));
      arenas.push_back(std::make_unique<Arena>());
      Control& control = *controls.back();
      auto local = std::make_unique<ShmGroup>(inside[static_cast<size_t>(host)], placement.on(host), place, control, arenas.back().get());
      std::unique_ptr<Group> cross;
      std::shared_ptr<SegmentTransport> transport;
      if (place < placement.lanes) {
        auto over = [&](int fd) { return std::make_unique<ShmGroup>(fd, placement.lane(place), host, control, nullptr); };
        cross = over(posts[static_cast<size_t>(place)]);
        transport = std::make_shared<SegmentTransport>(over(data[static_cast<size_t>(place)]));
      }
      groups.push_back(std::make_unique<HierarchicalGroup>(placement, i, ranks, control, arenas.back().get(),
                                                           std::move(local), std::move(cross), transport.get(), transport));
    }
  }
  ~Cluster() {
    for (int i = 0; i < placement.members(); i++) block.leave(i);
  }
  int size() const { return placement.members(); }
  Group& group(int i) { return *groups[static_cast<size_t>(i)]; }
  void together(const std::function<void(int)>& part) { world::together(size(), part); }
};

const std::vector<std::vector<int>> placements = {
    {0, 0, 1, 1},              // as usual
    {0, 1, 0, 1},              // cyclic
    {5, 5, 5, 2, 2},           // unequal
    {0, 1, 1, 1, 2, 2},        // one alone
    {3, 1, 3, 1, 3, 0, 0, 0},  // three hosts, mixed
};

Operation of(Kind kind, std::vector<Buffer> buffers, uint64_t fingerprint = 7) {
  Operation operation;
  operation.kind = kind;
  operation.dtype = DType::float32;
  operation.fingerprint = fingerprint;
  operation.buffers = std::move(buffers);
  operation.allocate = allocate;
  return operation;
}

Buffer in_place(void* data, size_t bytes) {
  return {static_cast<const char*>(data), static_cast<char*>(data), bytes};
}

float value_of(int member, size_t i) { return static_cast<float>((member + 1) * static_cast<int>(i % 13 + 1)); }

// Around the limits: nothing, in the post, in one step, by lanes, uneven.
constexpr size_t counts[] = {0, 1, 10, 256, 5000, 16 * 1024, 16 * 1024 + 1, 100'003};

}  // namespace

TEST("allreduce over hosts: every size and placement, one buffer and lists, with scales") {
  for (const std::vector<int>& hosts : placements) {
    Cluster cluster(hosts);
    for (size_t count : counts)
      for (bool is_split : {false, true})
        cluster.together([&](int me) {
          std::vector<float> data(count + 1);
          for (size_t i = 0; i < count; i++) data[i] = value_of(me, i);
          const size_t first = is_split ? count / 3 : 0;
          Operation operation = of(Kind::allreduce, {in_place(data.data(), count * 4)});
          if (is_split)
            operation.buffers = {in_place(data.data(), first * 4), in_place(data.data(), 0),
                                 in_place(data.data() + first, (count - first) * 4)};
          operation.prescale = is_split ? 2 : 1;
          operation.postscale = 0.5;
          CHECK_EQ(cluster.group(me).run(operation, patient()), Status::done);
          const float sum = static_cast<float>(cluster.size() * (cluster.size() + 1) / 2);
          for (size_t i = 0; i < count; i++)
            CHECK_EQ(data[i], sum * static_cast<float>(i % 13 + 1) * (is_split ? 1.0f : 0.5f));
        });
  }
}

TEST("allreduce over hosts: inputs stay as they are where outputs are others; more than one piece") {
  Cluster cluster({0, 0, 1, 1});
  const size_t count = (9 * HierarchicalGroup::piece_part_bytes + 4096) / 4;  // two pieces and a little
  cluster.together([&](int me) {
    std::vector<float> in(count), out(count);
    for (size_t i = 0; i < count; i++) in[i] = value_of(me, i);
    Operation operation = of(Kind::allreduce, {{reinterpret_cast<char*>(in.data()), reinterpret_cast<char*>(out.data()), count * 4}});
    CHECK_EQ(cluster.group(me).run(operation, patient()), Status::done);
    for (size_t i = 0; i < count; i++)
      if (in[i] != value_of(me, i) || out[i] != 10 * static_cast<float>(i % 13 + 1)) CHECK_EQ(i, count);
  });
}

TEST("broadcast over hosts from every member") {
  for (const std::vector<int>& hosts : placements) {
    Cluster cluster(hosts);
    for (size_t count : counts)
      for (int root = 0; root < cluster.size(); root++)
        cluster.together([&](int me) {
          std::vector<float> in(count + 1), out(count + 1);
          for (size_t i = 0; i < count; i++) in[i] = value_of(me, i);
          Operation operation = of(Kind::broadcast, {{reinterpret_cast<char*>(in.data()), reinterpret_cast<char*>(out.data()), count * 4}});
          operation.root = root;
          CHECK_EQ(cluster.group(me).run(operation, patient()), Status::done);
          for (size_t i = 0; i < count; i++) CHECK_EQ(out[i], value_of(root, i));
        });
  }
}

TEST("reducescatter over hosts: everybody its part, uneven ones and empty ones") {
  for (const std::vector<int>& hosts : placements) {
    Cluster cluster(hosts);
    for (size_t count : counts)
      cluster.together([&](int me) {
        std::vector<uint64_t> parts;
        size_t total = 0, start = 0;
        for (int i = 0; i < cluster.size(); i++) {
          if (i == me) start = total;
          parts.push_back(i == 1 ? 0 : count / static_cast<size_t>(i + 1));
          total += parts.back();
        }
        std::vector<float> in(total + 1), out(parts[static_cast<size_t>(me)] + 1);
        for (size_t i = 0; i < total; i++) in[i] = value_of(me, i);
        Operation operation = of(Kind::reducescatter, {{reinterpret_cast<char*>(in.data()), reinterpret_cast<char*>(out.data()), total * 4}});
        operation.counts = parts;
        operation.prescale = 2;
        operation.postscale = 0.5;
        CHECK_EQ(cluster.group(me).run(operation, patient()), Status::done);
        const float sum = static_cast<float>(cluster.size() * (cluster.size() + 1) / 2);
        for (size_t i = 0; i + 1 < out.size(); i++) CHECK_EQ(out[i], sum * static_cast<float>((start + i) % 13 + 1));
      });
  }
}

TEST("allgather over hosts: in index order whatever the placement, small and large, empty parts") {
  for (const std::vector<int>& hosts : placements) {
    Cluster cluster(hosts);
    for (size_t count : counts)
      cluster.together([&](int me) {
        auto length = [&](int i) { return i == 1 ? 0 : count / static_cast<size_t>(i + 1); };
        std::vector<float> in(length(me) + 1);
        for (size_t i = 0; i < length(me); i++) in[i] = value_of(me, i);
        std::vector<char> result;
        Operation operation = of(Kind::allgather, {{reinterpret_cast<char*>(in.data()), nullptr, length(me) * 4}});
        operation.allocate_context = &result;
        CHECK_EQ(cluster.group(me).run(operation, patient()), Status::done);
        auto* values = reinterpret_cast<float*>(result.data());
        for (int i = 0; i < cluster.size(); i++) {
          CHECK_EQ(operation.received[static_cast<size_t>(i)], length(i) * 4);
          for (size_t k = 0; k < length(i); k++) CHECK_EQ(*values++, value_of(i, k));
        }
      });
  }
}

TEST("alltoall over hosts: every pair its size") {
  for (const std::vector<int>& hosts : placements) {
    Cluster cluster(hosts);
    for (size_t count : {size_t{0}, size_t{3}, size_t{300}, size_t{20'000}})
      cluster.together([&](int me) {
        auto length = [&](int from, int to) { return from == 1 || to == 2 ? 0 : count * static_cast<size_t>(from + 1) / static_cast<size_t>(to + 1); };
        std::vector<float> in(1);
        std::vector<uint64_t> sends;
        for (int to = 0; to < cluster.size(); to++) {
          for (size_t k = 0; k < length(me, to); k++) in.insert(in.end() - 1, value_of(me * 10 + to, k));
          sends.push_back(length(me, to) * 4);
        }
        std::vector<char> result;
        Operation operation = of(Kind::alltoall, {{reinterpret_cast<char*>(in.data()), nullptr, (in.size() - 1) * 4}});
        operation.counts = sends;
        operation.allocate_context = &result;
        CHECK_EQ(cluster.group(me).run(operation, patient()), Status::done);
        auto* values = reinterpret_cast<float*>(result.data());
        for (int from = 0; from < cluster.size(); from++) {
          CHECK_EQ(operation.received[static_cast<size_t>(from)], length(from, me) * 4);
          for (size_t k = 0; k < length(from, me); k++) CHECK_EQ(*values++, value_of(from * 10 + me, k));
        }
      });
  }
}

TEST("a disagreement inside a host, between hosts, or on all hosts is one on every member, and nothing is touched") {
  for (const std::vector<int>& hosts : placements) {
    Cluster cluster(hosts);
    const std::vector<std::function<uint64_t(int)>> fingerprints = {
        [](int me) { return me == 1 ? 5u : 4u; },
        [&](int me) { return static_cast<uint64_t>(cluster.placement.host_of[static_cast<size_t>(me)]) + 4; },
        [](int me) { return static_cast<uint64_t>(me + 4); },
    };
    for (const auto& fingerprint : fingerprints)
      for (size_t count : {size_t{10}, size_t{50'000}}) {
        cluster.together([&](int me) {
          std::vector<float> data(count, static_cast<float>(me));
          Operation operation = of(fingerprint(me) % 2 == 0 ? Kind::allreduce : Kind::broadcast, {in_place(data.data(), count * 4)}, fingerprint(me));
          CHECK_EQ(cluster.group(me).run(operation, patient()), Status::mismatch);
          for (float value : data) CHECK_EQ(value, static_cast<float>(me));
          Operation barrier = of(Kind::barrier, {});
          CHECK_EQ(cluster.group(me).run(barrier, patient()), Status::done);
        });
      }
  }
}

TEST("a stall is reported, with who is missing: the member on its own host, all members of the host on the others") {
  Cluster cluster({0, 0, 1, 1, 2, 2});
  std::atomic<int> stalled{0};
  cluster.together([&](int me) {
    Patience patience = patient();
    patience.stall_ns = 20'000'000;
    if (me == 3)
      while (stalled.load() < 5) usleep(1000);
    Operation operation = of(Kind::barrier, {});
    Status status = cluster.group(me).run(operation, patience);
    if (me != 3) {
      // Those that are no leaders hear of it from theirs.
      const std::vector<int> expected = me == 2 ? std::vector<int>{3} : std::vector<int>{2, 3};
      while (status == Status::stalled && cluster.group(me).missing() != expected)
        status = cluster.group(me).resume(operation, patience);
      CHECK_EQ(status, Status::stalled);
      stalled++;
    }
    while (status == Status::stalled) status = cluster.group(me).resume(operation, patience);
    CHECK_EQ(status, Status::done);
  });
}

TEST("a failure of the job ends the wait of every member, and so does stop()") {
  Cluster cluster({0, 0, 1, 1});
  cluster.together([&](int me) {
    Operation operation = of(Kind::barrier, {});
    if (me == 3) {
      usleep(10'000);
      cluster.block.fail();
      return;
    }
    CHECK_EQ(cluster.group(me).run(operation, patient()), Status::failed);
  });
  Cluster other({0, 0, 1, 1});
  other.together([&](int me) {
    Operation operation = of(Kind::barrier, {});
    if (me == 3) {
      usleep(10'000);
      for (int i = 0; i < 3; i++) other.group(i).stop();
      return;
    }
    CHECK_EQ(other.group(me).run(operation, patient()), Status::stopped);
  });
}

TEST("others are seen to have started: on this host at once, on another one when all of its members have") {
  Cluster cluster({0, 0, 1, 1});
  cluster.together([&](int me) {
    Operation operation = of(Kind::barrier, {});
    if (me >= 2)
      while (!cluster.group(me).anyone_started()) cluster.group(me).nap(1'000'000);
    CHECK_EQ(cluster.group(me).run(operation, patient()), Status::done);
  });
}
