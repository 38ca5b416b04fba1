// Operations on float32 whose values travel as halves, on every group: they give the bits that the same operation on the
// halves gives, and both ways may meet in one round.

#include <cstring>

#include "check.h"
#include "cluster-world.h"
#include "mesh-world.h"
#include "world.h"

using namespace hvd;
using world::patient;

namespace {

constexpr DType wires[] = {DType::float16, DType::bfloat16};

// Small in its header, in its post, in one chunk, by parts, several chunks and pieces.
constexpr size_t counts[] = {0, 1, 21, 513, 16'385, 140'001};

// A member's memory for all cases: fresh pages cost a sanitizer more than what is done with them. Behind the values of a
// case lies one that nobody may touch.
struct Arrays {
  std::vector<float> values, in, apart, expected;
  std::vector<uint16_t> halves, given, part;
  Arrays() {
    for (auto* list : {&values, &in, &apart, &expected}) list->reserve(counts[std::size(counts) - 1] + 1);
    for (auto* list : {&halves, &given, &part}) list->reserve(counts[std::size(counts) - 1] + 1);
  }
  // Ordinary ones of both signs, which have to be rounded.
  void fill(int member, size_t count, DType wire) {
    values.assign(count + 1, -1);
    for (size_t i = 0; i < count; i++) {
      auto bits = static_cast<uint32_t>(i * 2654435761u + static_cast<uint32_t>(member + 1) * 40503u);
      bits ^= bits >> 13;
      values[i] = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-27f;
    }
    in = values;
    apart.assign(count + 1, -1);
    halves.assign(count + 1, 0);
    narrow(halves.data(), in.data(), count, wire);
  }
};

// In one go: an element at a time takes a sanitizer seconds.
template <class T>
bool are_equal(const std::vector<T>& a, const std::vector<T>& b, size_t count) {
  return std::memcmp(a.data(), b.data(), count * sizeof(T)) == 0;
}

struct Case {
  DType wire;
  Op op = Op::sum;
  size_t count = 0;
  bool is_split = false, is_in_place = false;
  double prescale = 1, postscale = 1;
};

Operation operation_of(const Case& each, bool narrows, void* in, void* out) {
  const size_t width = narrows ? 4 : 2;
  Operation operation;
  operation.dtype = each.wire;
  operation.op = each.op;
  operation.narrows = narrows;
  operation.prescale = each.prescale;
  operation.postscale = each.postscale;
  auto buffer = [&](size_t from, size_t to) -> Buffer {
    return {static_cast<char*>(in) + from * width, static_cast<char*>(out) + from * width, (to - from) * 2};
  };
  operation.buffers = {buffer(0, each.count)};
  const size_t cut = each.count / 3;
  if (each.is_split) operation.buffers = {buffer(0, cut), buffer(cut, cut), buffer(cut, each.count)};
  return operation;
}

void check_equal_bits(Arrays& arrays, const std::vector<float>& actual, const std::vector<uint16_t>& halves, size_t count, DType wire) {
  arrays.expected.resize(count + 1);
  widen(arrays.expected.data(), halves.data(), count, wire);
  CHECK(are_equal(actual, arrays.expected, count));
}

template <class World>
void check_allreduce(World& members, int me, Arrays& arrays, const Case& each, bool halves_meet) {
  arrays.fill(me, each.count, each.wire);
  auto& [values, in, apart, wide, halves, given, part] = arrays;
  given = halves;
  std::vector<float>& out = each.is_in_place ? in : apart;

  Operation expected = operation_of(each, false, halves.data(), halves.data());
  expected.kind = Kind::allreduce;
  CHECK(members.group(me).run(expected, patient()) == Status::done);

  const bool narrows = !halves_meet || me % 2 == 0;
  Operation operation = narrows ? operation_of(each, true, in.data(), out.data()) : operation_of(each, false, given.data(), given.data());
  operation.kind = Kind::allreduce;
  CHECK(members.group(me).run(operation, patient()) == Status::done);
  if (narrows)
    check_equal_bits(arrays, out, halves, each.count, each.wire);
  else
    CHECK(are_equal(given, halves, each.count));
  CHECK_EQ(out[each.count], -1.0f);
  if (!each.is_in_place) CHECK(are_equal(in, values, each.count));
}

template <class World>
void check_reducescatter(World& members, int me, Arrays& arrays, const Case& each) {
  arrays.fill(me, each.count, each.wire);
  auto& [values, in, out, wide, halves, given, part] = arrays;
  part.assign(each.count + 1, 0);
  const auto size = static_cast<size_t>(members.size());
  std::vector<uint64_t> shares(size, each.count / size);
  shares[0] += each.count % size;
  const size_t mine = shares[static_cast<size_t>(me)];

  Operation expected = operation_of(each, false, halves.data(), part.data());
  expected.kind = Kind::reducescatter;
  expected.counts = shares;
  CHECK(members.group(me).run(expected, patient()) == Status::done);
  Operation operation = operation_of(each, true, in.data(), out.data());
  operation.kind = Kind::reducescatter;
  operation.counts = shares;
  CHECK(members.group(me).run(operation, patient()) == Status::done);
  check_equal_bits(arrays, out, part, mine, each.wire);
  CHECK_EQ(out[mine], -1.0f);
}

template <class World>
void check_all(World& members) {
  members.together([&](int me) {
    Arrays arrays;
    for (DType wire : wires)
      for (size_t i = 0; i < std::size(counts); i++) {
        if (wire == DType::bfloat16 && i % 2 == 1) continue;  // it goes the same ways
        Case each{wire, i % 3 == 2 ? Op::max : Op::sum, counts[i], false, i % 2 == 0, 1, 1};
        check_allreduce(members, me, arrays, each, false);
        check_allreduce(members, me, arrays, each, true);
        each = {wire, Op::sum, counts[i], true, i % 2 == 1, i % 3 == 0 ? 1 : 0.3, i % 3 == 1 ? 1 : 1.0 / 3};
        check_allreduce(members, me, arrays, each, false);
        each.is_split = false;
        check_allreduce(members, me, arrays, each, false);
        check_reducescatter(members, me, arrays, each);
      }
  });
}

}  // namespace

TEST("values travel as halves over shared memory, whether members may copy from each other or not") {
  for (auto [count, copies] : {std::pair{1, false}, {2, false}, {2, true}, {3, false}}) {
    world::Members members(count, copies);
    check_all(members);
  }
}

TEST("values travel as halves over sockets") {
  for (int count : {2, 3}) {
    world::Crossing members(count);
    check_all(members);
  }
}

TEST("values travel as halves between hosts, with one member on each, several, and unequally many") {
  for (const std::vector<int>& hosts : std::vector<std::vector<int>>{{0, 1}, {0, 0, 1, 1}, {0, 1, 0}}) {
    world::Cluster members(hosts);
    check_all(members);
  }
}

TEST("values travel as halves in operations that go among all members at once") {
  world::Cluster members({0, 0, 1}, world::Flat::all_but_allgather);
  check_all(members);
}
