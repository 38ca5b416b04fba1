// Groups over hosts and sockets when things go wrong or come in any order: members that wait passively, disagree, stop, die
// in any phase; with everything hierarchical, and with some operations flat.

#include <optional>
#include <random>

#include "check.h"
#include "cluster-world.h"
#include "group/worker.h"

using namespace hvd;
using world::Cluster;
using world::Flat;
using world::patient;
using world::second_ns;

namespace {

const std::vector<std::optional<Flat>> ways = {std::nullopt, Flat::allgather, Flat::all_but_allgather};

char* allocate(void* context, size_t bytes) {
  auto& memory = *static_cast<std::vector<char>*>(context);
  memory.resize(bytes + 1);
  return memory.data();
}

// One operation of any kind with its memory; check() says whether the result is right.
struct Trial {
  Kind kind;
  int me, size;
  size_t count;
  std::vector<float> in, out;
  std::vector<char> result;
  Operation operation;

  Trial(Kind kind, size_t count, int me, int size, uint64_t fingerprint = 7) : kind(kind), me(me), size(size), count(count) {
    const bool is_parted = kind == Kind::alltoall || kind == Kind::reducescatter;
    in.resize((is_parted ? count * static_cast<size_t>(size) : count) + 1);
    out.resize(count + 1, -1);
    for (size_t i = 0; i + 1 < in.size(); i++) in[i] = value(me, i);
    operation.kind = kind;
    operation.dtype = DType::float32;
    operation.fingerprint = fingerprint;
    operation.root = size - 1;
    operation.allocate = allocate;
    operation.allocate_context = &result;
    if (kind != Kind::barrier)
      operation.buffers = {{reinterpret_cast<char*>(in.data()), reinterpret_cast<char*>(out.data()), (in.size() - 1) * 4}};
    if (is_parted) operation.counts.assign(static_cast<size_t>(size), kind == Kind::alltoall ? count * 4 : count);
  }
  static float value(int member, size_t i) { return static_cast<float>((member + 1) * static_cast<int>(i % 11 + 1)); }

  bool is_right() const {
    const auto n = static_cast<size_t>(size), own = static_cast<size_t>(me);
    auto received = [&](size_t i) {
      float each;
      std::memcpy(&each, result.data() + i * 4, 4);
      return each;
    };
    const float sum = static_cast<float>(size * (size + 1) / 2);
    for (size_t i = 0; i < count; i++) {
      if (kind == Kind::allreduce && out[i] != sum * static_cast<float>(i % 11 + 1)) return false;
      if (kind == Kind::reducescatter && out[i] != sum * static_cast<float>((own * count + i) % 11 + 1)) return false;
      if (kind == Kind::broadcast && out[i] != value(size - 1, i)) return false;
      for (size_t from = 0; from < n; from++) {
        if (kind == Kind::allgather && received(from * count + i) != value(static_cast<int>(from), i)) return false;
        if (kind == Kind::alltoall && received(from * count + i) != value(static_cast<int>(from), own * count + i)) return false;
      }
    }
    return true;
  }
  bool is_untouched() const {
    for (float each : out)
      if (each != -1) return false;
    return result.empty();
  }
};

constexpr Kind kinds[] = {Kind::allreduce, Kind::reducescatter, Kind::allgather, Kind::broadcast, Kind::alltoall, Kind::barrier};

const char* name_of(std::optional<Flat> way) {
  return !way ? "all by host" : *way == Flat::allgather ? "allgather flat" : "all but allgather flat";
}

}  // namespace

TEST("over sockets, with some operations flat or none: every kind is right, small and large") {
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 1, 1}, {0, 1, 1, 0, 2}, {4, 4, 4, 1}})
    for (std::optional<Flat> way : ways) {
      Cluster cluster(hosts, way);
      cluster.together([&](int me) {
        for (Kind kind : kinds)
          for (size_t count : {0, 1, 300, 9000, 40'000}) {
            Trial trial(kind, count, me, cluster.size());
            CHECK_EQ(cluster.group(me).run(trial.operation, patient()), Status::done);
            if (!trial.is_right()) check::fail(__FILE__, __LINE__, name_of(way) + std::string(" gave something wrong"));
          }
      });
    }
}

TEST("in place, again and again, at different speeds: no input is overwritten before everybody has read it") {
  Cluster cluster({0, 0, 0, 1, 1});
  cluster.together([&](int me) {
    std::mt19937 random(static_cast<unsigned>(me));
    const size_t sizes[] = {200, 7000, 40'000, 300'000};  // in posts, in one go, by lanes, in pieces
    for (int round = 0; round < 60; round++) {
      const size_t count = sizes[round % 4], first = round % 3 == 0 ? count / 3 : count;
      std::vector<float> data(count);
      for (size_t i = 0; i < count; i++) data[i] = Trial::value(me, i + static_cast<size_t>(round));
      Operation operation;
      operation.kind = Kind::allreduce;
      operation.dtype = DType::float32;
      operation.prescale = round % 2 ? 2 : 1;
      auto* bytes = reinterpret_cast<char*>(data.data());
      operation.buffers = {{bytes, bytes, first * 4}};
      if (first < count) operation.buffers.push_back({bytes + first * 4, bytes + first * 4, (count - first) * 4});
      if (random() % 3 == 0) usleep(random() % 300);
      CHECK_EQ(cluster.group(me).run(operation, patient()), Status::done);
      for (size_t i = 0; i < count; i++)
        if (data[i] != 15 * static_cast<float>(operation.prescale) * Trial::value(0, i + static_cast<size_t>(round)))
          check::fail(__FILE__, __LINE__, "element " + std::to_string(i) + " of round " + std::to_string(round) + " is wrong");
    }
  });
}

TEST("a disagreement touches nothing, in what goes flat as well, and the next round works") {
  for (std::optional<Flat> way : ways) {
    Cluster cluster({0, 1, 0, 1, 2}, way);
    for (Kind kind : kinds)
      for (int other : {0, 1, 2, 4})  // a leader, leaders and others, and who is alone
        cluster.together([&](int me) {
          Trial differing(me == other ? Kind::allgather : kind, 5000, me, cluster.size(), me == other ? 8 : 7);
          CHECK_EQ(cluster.group(me).run(differing.operation, patient()), Status::mismatch);
          CHECK(differing.is_untouched());
          Trial agreed(kind, 5000, me, cluster.size(), 9);
          CHECK_EQ(cluster.group(me).run(agreed.operation, patient()), Status::done);
          CHECK(agreed.is_right());
        });
  }
}

// In each round one member at least comes by itself; the others come by themselves as well, or as passive batches of a worker, some of
// which are taken back and come by themselves then. Whatever the order, everybody gets the same answer.
TEST("passive and active members in any order, over two and three hosts, with disagreements between") {
  int seed = 1;
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 1, 1}, {0, 1, 2}, {0, 1, 1, 2, 0}, {0, 0, 0, 1}})
    for (std::optional<Flat> way : ways) {
      Cluster cluster(hosts, way);
      const int rounds = 25;
      std::mt19937 shared(static_cast<unsigned>(seed++));
      struct Plan {
        Kind kind;
        size_t count;
        int active, odd;  // who comes by itself for sure; who wants something else (-1: nobody)
      };
      std::vector<Plan> plans;
      for (int i = 0; i < rounds; i++)
        plans.push_back({kinds[shared() % 6], shared() % 3 == 0 ? 30'000u : shared() % 2000, static_cast<int>(shared() % hosts.size()),
                         shared() % 4 == 0 ? static_cast<int>(shared() % hosts.size()) : -1});
      cluster.together([&](int me) {
        std::mt19937 random(static_cast<unsigned>(seed * 100 + me));
        Worker worker(cluster.group(me), [](Batch*) {});
        for (const Plan& plan : plans) {
          const uint64_t fingerprint = plan.odd == me ? 5 : 6;
          Trial trial(plan.kind, plan.count, me, cluster.size(), fingerprint);
          const Status expected = plan.odd >= 0 ? Status::mismatch : Status::done;
          if (random() % 2) usleep(random() % 2000);
          bool is_over = false;
          if (me != plan.active && random() % 3 != 0) {
            Batch batch;
            batch.patience = patient();
            batch.passive = true;
            batch.operations = {trial.operation};
            worker.submit(&batch);
            bool is_back = false;
            if (random() % 2) {
              usleep(random() % 1500);
              is_back = !worker.take_back().empty();
            }
            if (!is_back) {
              CHECK_EQ(worker.wait(&batch, 0), expected);
              worker.take_back();  // lifts the halt
              is_over = true;
            }
          }
          if (!is_over) CHECK_EQ(cluster.group(me).run(trial.operation, patient()), expected);
          CHECK(expected == Status::done ? trial.is_right() : trial.is_untouched());
        }
      });
    }
}

TEST("stop() ends operations in whatever phase they are") {
  std::mt19937 random(3);
  for (std::optional<Flat> way : ways)
    for (int trial = 0; trial < 6; trial++) {
      Cluster cluster({0, 0, 1, 1, 1}, way);
      const int stopped = static_cast<int>(random() % 5);
      const useconds_t after = random() % 4000;
      std::thread stopper([&] {
        usleep(after);
        cluster.group(stopped).stop();
      });
      cluster.together([&](int me) {
        for (size_t i = 0;; i++) {
          Trial each(kinds[i % 6], i % 2 ? 50'000 : 500, me, cluster.size());
          const Status status = cluster.group(me).run(each.operation, patient());
          if (status == Status::done) continue;
          if (me == stopped) CHECK_EQ(status, Status::stopped);
          else CHECK_EQ(status, Status::failed);
          cluster.tell_all();
          break;
        }
      });
      stopper.join();
    }
}

TEST("the death of a member in whatever phase ends the operations of all, and is nobody else's") {
  std::mt19937 random(4);
  for (std::optional<Flat> way : ways)
    for (int trial = 0; trial < 6; trial++) {
      Cluster cluster({0, 0, 1, 1, 1, 2, 2}, way);
      const int victim = static_cast<int>(random() % 7);
      const useconds_t after = random() % 4000;
      std::atomic<int> first{-2};
      std::thread killer([&] {
        usleep(after);
        cluster.group(victim).stop();
      });
      cluster.together([&](int me) {
        for (size_t i = 0;; i++) {
          Trial each(kinds[i % 6], i % 2 ? 50'000 : 500, me, cluster.size());
          const Status status = cluster.group(me).run(each.operation, patient());
          if (status == Status::done) continue;
          if (me == victim) {
            killer.join();
            cluster.kill(me);
          } else {
            int none = -2;
            if (status != Status::failed) first.compare_exchange_strong(none, cluster.group(me).culprit());
            CHECK(status == Status::peer_lost || status == Status::failed);
            cluster.tell_all();
          }
          break;
        }
      });
      CHECK_EQ(first.load(), victim);
    }
}

TEST("a member that dies before it comes is missed by its host, which tells the others") {
  for (std::optional<Flat> way : ways)
    for (int victim : {0, 1, 4}) {  // a leader, a lane, and one without a lane
      Cluster cluster({0, 0, 1, 1, 1}, way);
      cluster.kill(victim);
      cluster.together([&](int me) {
        if (me == victim) return;
        Trial each(Kind::allreduce, 1000, me, cluster.size());
        const Status status = cluster.group(me).run(each.operation, patient());
        if (status == Status::peer_lost) CHECK_EQ(cluster.group(me).culprit(), victim);
        else CHECK_EQ(status, Status::failed);
        CHECK(each.is_untouched());
        cluster.tell_all();
      });
    }
}

TEST("a deadline ends a wait in every phase, with the name of who has not come") {
  for (std::optional<Flat> way : ways) {
    Cluster cluster({0, 0, 1, 1}, way);
    cluster.together([&](int me) {
      if (me == 2) return;  // never comes
      Patience patience = patient();
      patience.timeout_ns = 200'000'000;
      Trial each(Kind::allgather, 1000, me, cluster.size());
      CHECK_EQ(cluster.group(me).run(each.operation, patience), Status::timeout);
      const std::vector<int> missing = cluster.group(me).missing();
      CHECK(std::find(missing.begin(), missing.end(), 2) != missing.end());
    });
  }
}

TEST("memory that runs out during an operation is an answer, not an exception") {
  Cluster cluster({0, 1});
  cluster.together([&](int me) {
    Trial each(Kind::allgather, 1000, me, 2);
    each.operation.allocate = [](void*, size_t) -> char* { throw std::bad_alloc(); };
    CHECK_EQ(cluster.group(me).run(each.operation, patient()), Status::no_memory);
  });
}
