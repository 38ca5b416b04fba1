// Rounds of members connected by sockets, over TcpTransport: every kind of operation at every size and number of members.
// How such rounds end badly is in cross-faults.test.cc.

#include "cross/cross-group.h"

#include "check.h"
#include "mesh-world.h"

using namespace hvd;
using world::Crossing;
using world::patient;
using world::Wire;

namespace {

Buffer in_place(void* data, size_t bytes) {
  return {static_cast<const char*>(data), static_cast<char*>(data), bytes};
}

char* allocate(void* context, size_t bytes) {
  auto& memory = *static_cast<std::vector<char>*>(context);
  memory.resize(bytes == 0 ? 1 : bytes);
  return memory.data();
}

// Sums of these are exact in every order.
float value_of(int member, size_t i) { return static_cast<float>((member + 1) * static_cast<int>(i % 13 + 1)); }
float sum_of(int members, size_t i) { return static_cast<float>(members * (members + 1) / 2) * value_of(0, i); }
char byte_of(int member, int to, size_t i) { return static_cast<char>(member * 31 + to * 7 + static_cast<int>(i % 251)); }

// In the posts, by recursive doubling, around the ring; nothing, odd numbers.
constexpr size_t counts[] = {0, 1, 3, 17, 1023, 4096, 8191, 16'384, 16'385, 65'537, 300'001};

void check_allreduce(Crossing& crossing, size_t count, bool is_split) {
  crossing.together([&](int me) {
    std::vector<float> in(count + 1), out(count + 1, -1);
    for (size_t i = 0; i < count; i++) in[i] = value_of(me, i);
    Operation operation;
    operation.kind = Kind::allreduce;
    operation.dtype = DType::float32;
    const size_t cut = count / 3;
    auto buffer = [&](size_t from, size_t to) -> Buffer {
      return {reinterpret_cast<char*>(in.data() + from), reinterpret_cast<char*>(out.data() + from), (to - from) * 4};
    };
    operation.buffers = {buffer(0, count)};
    if (is_split) {
      operation.buffers = {buffer(0, cut), buffer(cut, cut), buffer(cut, count)};
      operation.prescale = 2;
      operation.postscale = 0.25;
    }
    CHECK(crossing.group(me).run(operation, patient()) == Status::done);
    for (size_t i = 0; i < count; i++) CHECK_EQ(out[i], (is_split ? 0.5f : 1.0f) * sum_of(crossing.size(), i));
    for (size_t i = 0; i < count; i++) CHECK_EQ(in[i], value_of(me, i));
    CHECK_EQ(out[count], -1.0f);
  });
}

void check_reducescatter(Crossing& crossing, size_t unit) {
  const int size = crossing.size();
  crossing.together([&](int me) {
    Operation operation;
    operation.kind = Kind::reducescatter;
    operation.dtype = DType::float32;
    operation.postscale = 2;
    size_t total = 0, start = 0;
    for (int i = 0; i < size; i++) {
      const size_t part = i == 1 ? 0 : unit + static_cast<size_t>(i);
      if (i < me) start += part;
      operation.counts.push_back(part);
      total += part;
    }
    std::vector<float> in(total), out(operation.counts[static_cast<size_t>(me)] + 1, -1);
    for (size_t i = 0; i < total; i++) in[i] = value_of(me, i);
    operation.buffers = {{reinterpret_cast<char*>(in.data()), reinterpret_cast<char*>(out.data()), total * 4}};
    CHECK(crossing.group(me).run(operation, patient()) == Status::done);
    for (size_t i = 0; i + 1 < out.size(); i++) CHECK_EQ(out[i], 2 * sum_of(size, start + i));
    CHECK_EQ(out.back(), -1.0f);
  });
}

void check_allgather(Crossing& crossing, size_t unit) {
  crossing.together([&](int me) {
    auto bytes_of = [&](int i) { return i == 1 ? 0 : unit + static_cast<size_t>(i); };
    std::vector<char> mine(bytes_of(me) + 1), memory;
    for (size_t i = 0; i < bytes_of(me); i++) mine[i] = byte_of(me, 0, i);
    Operation operation;
    operation.kind = Kind::allgather;
    operation.buffers = {in_place(mine.data(), bytes_of(me))};
    operation.allocate = allocate;
    operation.allocate_context = &memory;
    CHECK(crossing.group(me).run(operation, patient()) == Status::done);
    const char* at = operation.result;
    for (int from = 0; from < crossing.size(); from++) {
      CHECK_EQ(operation.received[static_cast<size_t>(from)], uint64_t{bytes_of(from)});
      for (size_t i = 0; i < bytes_of(from); i++) CHECK_EQ(*at++, byte_of(from, 0, i));
    }
    CHECK(at == operation.result + operation.result_bytes);
  });
}

void check_broadcast(Crossing& crossing, size_t bytes, int root) {
  crossing.together([&](int me) {
    std::vector<char> in(bytes + 1), out(bytes + 1, 'x');
    for (size_t i = 0; i < bytes; i++) in[i] = byte_of(me, 0, i);
    Operation operation;
    operation.kind = Kind::broadcast;
    operation.root = root;
    operation.buffers = {{in.data(), out.data(), bytes}};
    CHECK(crossing.group(me).run(operation, patient()) == Status::done);
    for (size_t i = 0; i < bytes; i++) CHECK_EQ(out[i], byte_of(root, 0, i));
    CHECK_EQ(out[bytes], 'x');
  });
}

void check_alltoall(Crossing& crossing, size_t unit) {
  const int size = crossing.size();
  auto bytes_of = [&](int from, int to) { return from == 0 && to == 1 ? 0 : unit * static_cast<size_t>(to) + static_cast<size_t>(from); };
  crossing.together([&](int me) {
    Operation operation;
    operation.kind = Kind::alltoall;
    std::vector<char> mine, memory;
    for (int to = 0; to < size; to++) {
      operation.counts.push_back(bytes_of(me, to));
      for (size_t i = 0; i < bytes_of(me, to); i++) mine.push_back(byte_of(me, to, i));
    }
    mine.push_back(0);
    operation.buffers = {in_place(mine.data(), mine.size() - 1)};
    operation.allocate = allocate;
    operation.allocate_context = &memory;
    CHECK(crossing.group(me).run(operation, patient()) == Status::done);
    const char* at = operation.result;
    for (int from = 0; from < size; from++) {
      CHECK_EQ(operation.received[static_cast<size_t>(from)], uint64_t{bytes_of(from, me)});
      for (size_t i = 0; i < bytes_of(from, me); i++) CHECK_EQ(*at++, byte_of(from, me, i));
    }
  });
}

}  // namespace

TEST("allreduce sums up for any number of members, at any size, in one buffer or several") {
  for (int size : {1, 2, 3, 4, 5, 8}) {
    Crossing crossing(size);
    for (size_t count : counts)
      for (bool is_split : {false, true})
        if (size <= 3 || count < 300'000) check_allreduce(crossing, count, is_split);
  }
}

TEST("allreduce of some MiB goes around the ring, over TCP as well") {
  for (int size : {2, 3}) {
    Crossing crossing(size, -1, Wire::tcp);
    check_allreduce(crossing, 1'000'003, false);
    check_allreduce(crossing, 7, false);
    check_allreduce(crossing, 500'001, true);
  }
}

TEST("where few steps end and few bytes begin can change between operations, on all members") {
  for (int members : {2, 3, 4}) {
    Crossing crossing(members);
    for (size_t bytes : {size_t{0}, size_t{1} << 20, size_t{64} * 1024}) {
      for (int i = 0; i < members; i++) crossing.group(i).set_switch_bytes(bytes);
      for (size_t count : {size_t{17}, size_t{16'385}, size_t{65'537}, size_t{300'001}}) check_allreduce(crossing, count, false);
    }
  }
}

TEST("members that disagree where few bytes begin end with an error, not with wrong sums") {
  Crossing crossing(2);
  crossing.group(0).set_switch_bytes(1 << 20);
  crossing.together([&](int me) {
    std::vector<float> data(100'000, 1);
    Operation operation;
    operation.kind = Kind::allreduce;
    operation.dtype = DType::float32;
    operation.buffers = {in_place(data.data(), data.size() * 4)};
    CHECK(crossing.group(me).run(operation, patient()) == Status::system_error);
    CHECK_EQ(crossing.group(me).culprit(), 1 - me);
  });
}

TEST("reducescatter gives every member its part of the sum, empty parts included") {
  for (int size : {1, 2, 3, 5}) {
    Crossing crossing(size);
    for (size_t unit : {0, 1, 100, 30'001}) check_reducescatter(crossing, unit);
  }
}

TEST("allgather puts the members' bytes one after another, whatever their sizes") {
  for (int size : {1, 2, 3, 5}) {
    Crossing crossing(size);
    for (size_t unit : {0, 1, 1000, 32'768, 150'001}) check_allgather(crossing, unit);
  }
}

TEST("broadcast gives everybody the root's bytes, with the post, along a tree or along a chain") {
  for (int size : {1, 2, 3, 4, 5, 8}) {
    Crossing crossing(size);
    for (size_t bytes : {0, 1, 1000, 50'000, 300'001}) check_broadcast(crossing, bytes, size / 2);
    check_broadcast(crossing, 50'000, size - 1);
    check_broadcast(crossing, 300'001, 0);
  }
}

TEST("alltoall gives every member its part of everybody, whatever the sizes") {
  for (int size : {1, 2, 3, 5}) {
    Crossing crossing(size);
    for (size_t unit : {0, 1, 1000, 70'001}) check_alltoall(crossing, unit);
  }
}

TEST("nothing depends on what comes with the posts") {
  Crossing crossing(5, 0);
  for (size_t count : {1, 16, 1000, 20'000}) {
    check_allreduce(crossing, count, true);
    check_reducescatter(crossing, count);
    check_allgather(crossing, count);
    check_broadcast(crossing, count, 3);
    check_alltoall(crossing, count);
  }
}

TEST("nothing depends on whether the connections are encrypted") {
  for (long carried : {-1L, 0L})
    for (auto [size, wire] : {std::pair{2, Wire::tcp}, {2, Wire::pair}, {3, Wire::tcp}, {4, Wire::pair}}) {
      Crossing crossing(size, carried, wire, true);
      for (size_t count : {size_t{1}, size_t{1023}, size_t{8192}, size_t{16'385}, size_t{100'003}}) {
        check_allreduce(crossing, count, count % 2 == 0);
        check_reducescatter(crossing, count);
        check_allgather(crossing, count);
        check_broadcast(crossing, count, size / 2);
        check_alltoall(crossing, count / 4);
      }
      check_allreduce(crossing, 1'000'003, false);
    }
}

TEST("every dtype and operator gives every member the same bits, the right ones") {
  for (int size : {2, 3, 4}) {
    for (long carried : {-1L, 0L}) {
      Crossing crossing(size, carried);
      for (int type = 0; type < dtype_count; type++)
        for (Op op : {Op::sum, Op::min, Op::max, Op::product})
          for (size_t count : {37, 17'001}) {
            const auto dtype = static_cast<DType>(type);
            const size_t bytes = count * element_bytes(dtype);
            // Small whole numbers: one byte of each element, or the half float of it, is enough of a pattern; 0 and 1 are
            // exact in every dtype and under every operator, whatever the order.
            std::vector<std::vector<char>> data(static_cast<size_t>(size), std::vector<char>(bytes));
            for (int m = 0; m < size; m++)
              for (size_t i = 0; i < count; i++) {
                const double value = (i + static_cast<size_t>(m)) % 2 ? 1 : 0;
                char* at = data[static_cast<size_t>(m)].data() + i * element_bytes(dtype);
                const auto half = static_cast<uint16_t>(value != 0 ? (dtype == DType::float16 ? 0x3c00 : 0x3f80) : 0);
                const auto single = static_cast<float>(value);
                if (dtype == DType::float16 || dtype == DType::bfloat16) std::memcpy(at, &half, 2);
                else if (dtype == DType::float32) std::memcpy(at, &single, 4);
                else if (dtype == DType::float64) std::memcpy(at, &value, 8);
                else *at = static_cast<char>(value);
              }
            std::vector<const void*> sources;
            for (const auto& each : data) sources.push_back(each.data());
            std::vector<char> expected(bytes);
            reduce(expected.data(), sources.data(), size, count, dtype, op, 1);
            crossing.together([&](int me) {
              std::vector<char> mine = data[static_cast<size_t>(me)];
              Operation operation;
              operation.kind = Kind::allreduce;
              operation.dtype = dtype;
              operation.op = op;
              operation.buffers = {in_place(mine.data(), bytes)};
              CHECK(crossing.group(me).run(operation, patient()) == Status::done);
              CHECK(mine == expected);
            });
          }
    }
  }
}

TEST("rounds of all kinds follow each other, with members at different speeds") {
  Crossing crossing(3, -1, Wire::tcp);
  for (size_t n = 0; n < 25; n++) {
    check_allreduce(crossing, n * n * 37, n % 2 == 0);
    check_broadcast(crossing, n * 900, static_cast<int>(n % 3));
    check_allgather(crossing, n * 1000);
  }
  crossing.together([&](int me) {
    for (int n = 0; n < 300; n++) {
      if (n % 3 == me) usleep(100);
      Operation barrier;
      barrier.fingerprint = static_cast<uint64_t>(n);
      CHECK(crossing.group(me).run(barrier, patient()) == Status::done);
    }
  });
}
