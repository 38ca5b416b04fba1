// Encrypted connections: the cipher itself, streams of records in pieces of any size, and what happens when somebody on the way
// alters them. Operations over encrypted connections are in cross-group.test.cc too.

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include "check.h"
#include "mesh-world.h"

using namespace hvd;
using world::Block;
using world::keys_between;
using world::patient;
using world::Wire;
using world::Wires;

namespace {

constexpr size_t tag_bytes = RecordCipher::tag_bytes;

std::string hex(const char* data, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; i++) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(data[i])));
    text += two;
  }
  return text;
}

std::vector<char> random_bytes(std::mt19937& random, size_t count) {
  std::vector<char> bytes(count);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Two ends of a connection; what is in the socket between them can be taken out and altered.
struct Pair {
  int fds[2];
  SealedStream ends[2]{SealedStream(keys_between(0, 1)), SealedStream(keys_between(1, 0))};
  explicit Pair(int buffer_bytes = 0) {
    std::tie(fds[0], fds[1]) = world::connect_two(Wire::pair);
    for (int fd : fds) {
      CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
      if (buffer_bytes > 0) CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes), 0);
    }
  }
  ~Pair() {
    for (int fd : fds) close(fd);
  }
  ssize_t send(int end, const char* data, size_t bytes) {
    const iovec piece{const_cast<char*>(data), bytes};
    return ends[end].send(fds[end], &piece, 1);
  }
  // One record of these bytes, as it travels.
  std::vector<char> record_of(int end, const std::vector<char>& text) {
    CHECK_EQ(send(end, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    std::vector<char> record(text.size() + 4 + tag_bytes);
    CHECK_EQ(recv(fds[1 - end], record.data(), record.size(), 0), static_cast<ssize_t>(record.size()));
    return record;
  }
  void deliver(int to, const std::vector<char>& bytes) {
    CHECK_EQ(::send(fds[1 - to], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // The number of bytes, or -errno.
  ssize_t receive(int end, std::vector<char>& into) {
    const ssize_t got = ends[end].receive(fds[end], into.data(), into.size());
    return got < 0 ? -errno : got;
  }
};

Operation allreduce_of(std::vector<float>& data) {
  Operation operation;
  operation.kind = Kind::allreduce;
  operation.dtype = DType::float32;
  operation.fingerprint = 5;
  operation.buffers = {
      {reinterpret_cast<char*>(data.data()), reinterpret_cast<char*>(data.data()), data.size() * sizeof(float)}};
  return operation;
}

}  // namespace

TEST("the cipher is AES-256-GCM, with the record's number as nonce") {
  world::load_libcrypto();
  const char zeros[32] = {};
  RecordCipher cipher(RecordCipher::Use::seal, zeros);
  iovec piece{const_cast<char*>(zeros), 16};
  char sealed[16 + tag_bytes];
  CHECK(cipher.seal(&piece, 1, sealed));
  // Test case 14 of the specification of GCM.
  CHECK_EQ(hex(sealed, sizeof sealed), "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
  char second[16 + tag_bytes];
  CHECK(cipher.seal(&piece, 1, second));
  CHECK(std::memcmp(sealed, second, 16) != 0);
}

TEST("a stream arrives as it was sent, whatever the pieces, sizes, directions and buffers") {
  std::mt19937 random(7);
  for (int n = 0; n < 30; n++) {
    Pair pair(n % 3 == 0 ? 2048 : 0);
    std::vector<char> sent[2], received[2];
    size_t gone[2] = {0, 0};
    for (auto& bytes : sent) bytes = random_bytes(random, random() % (n % 5 == 0 ? 400'000 : 5000));
    auto is_over = [&] { return received[0].size() == sent[1].size() && received[1].size() == sent[0].size(); };
    // What is left of the bytes that were offered and not taken has to be offered again.
    size_t offered[2] = {0, 0};
    while (!is_over()) {
      const int end = static_cast<int>(random() % 2);
      if (random() % 2 == 0 && gone[end] < sent[end].size()) {
        const size_t left = sent[end].size() - gone[end];
        const size_t bytes = std::max(offered[end], std::min(left, size_t{1} + random() % 150'000));
        const size_t cut = random() % (bytes + 1);
        iovec pieces[3] = {{sent[end].data() + gone[end], cut}, {nullptr, 0}, {sent[end].data() + gone[end] + cut, bytes - cut}};
        const ssize_t count = pair.ends[end].send(pair.fds[end], pieces, 3);
        if (count < 0) CHECK_EQ(errno, EAGAIN);
        const size_t taken = count < 0 ? 0 : static_cast<size_t>(count);
        gone[end] += taken;
        offered[end] = bytes - taken;
      } else {
        std::vector<char> into(1 + random() % 100'000);
        const ssize_t count = pair.receive(end, into);
        if (count < 0) CHECK_EQ(count, -EAGAIN);
        if (count > 0) received[end].insert(received[end].end(), into.begin(), into.begin() + count);
      }
    }
    CHECK(received[0] == sent[1]);
    CHECK(received[1] == sent[0]);
  }
}

TEST("when receive() gives less than it was asked for, the rest is in the socket and not in its buffer") {
  Pair pair;
  for (int n = 0; n < 40; n++) CHECK_EQ(pair.send(0, "0123456789", 10), ssize_t{10});
  std::vector<char> into(1000);
  CHECK_EQ(pair.receive(1, into), ssize_t{400});
  CHECK_EQ(pair.receive(1, into), ssize_t{-EAGAIN});
}

TEST("both sides replace their keys at the same record, and go on") {
  world::load_libcrypto();
  const auto keys = keys_between(0, 1);
  RecordCipher sealer(RecordCipher::Use::seal, keys.send.data(), 3), opener(RecordCipher::Use::open, keys.send.data(), 3);
  RecordCipher never(RecordCipher::Use::open, keys.send.data());
  for (int n = 0; n < 10; n++) {
    char text[] = "some text";
    char sealed[sizeof text + tag_bytes], copy[sizeof sealed];
    iovec piece{text, sizeof text};
    CHECK(sealer.seal(&piece, 1, sealed));
    std::memcpy(copy, sealed, sizeof copy);
    CHECK(opener.open(sealed, sizeof text));
    CHECK_EQ(std::string(sealed), std::string(text));
    CHECK_EQ(never.open(copy, sizeof text), n < 3);
  }
}

TEST("one bit that is flipped anywhere in a record ends the stream, and no byte of that record comes out") {
  std::mt19937 random(3);
  const std::vector<char> text = random_bytes(random, 40);
  for (size_t bit = 0; bit < (4 + text.size() + tag_bytes) * 8; bit++) {
    Pair pair;
    const std::vector<char> first = pair.record_of(0, text);
    std::vector<char> second = pair.record_of(0, text);
    // A length that has grown waits for bytes that belong to the records behind it.
    const std::vector<char> third = pair.record_of(0, std::vector<char>(30'000));
    const std::vector<char> fourth = pair.record_of(0, std::vector<char>(30'000));
    second[bit / 8] = static_cast<char>(second[bit / 8] ^ 1 << bit % 8);
    const std::vector<char>* const records[] = {&first, &second, &third, &fourth};
    for (const auto* record : records) pair.deliver(1, *record);
    std::vector<char> into(200'000);
    CHECK_EQ(pair.receive(1, into), static_cast<ssize_t>(text.size()));
    for (int n = 0; n < 2; n++) CHECK_EQ(pair.receive(1, into), ssize_t{-EBADMSG});
  }
}

TEST("a record that is repeated, left out, moved, sent back or cut off does not open") {
  std::mt19937 random(5);
  const std::vector<char> text = random_bytes(random, 100);
  std::vector<char> into(1000);
  auto begin = [&](Pair& pair) {
    std::vector<std::vector<char>> records;
    for (int n = 0; n < 3; n++) records.push_back(pair.record_of(0, text));
    pair.deliver(1, records[0]);
    CHECK_EQ(pair.receive(1, into), ssize_t{100});
    return records;
  };
  {
    Pair pair;
    const auto records = begin(pair);
    pair.deliver(1, records[0]);
    CHECK_EQ(pair.receive(1, into), ssize_t{-EBADMSG});
  }
  {
    Pair pair;
    const auto records = begin(pair);
    pair.deliver(1, records[2]);
    CHECK_EQ(pair.receive(1, into), ssize_t{-EBADMSG});
    pair.deliver(1, records[1]);
    CHECK_EQ(pair.receive(1, into), ssize_t{-EBADMSG});
  }
  {
    Pair pair;
    pair.deliver(0, pair.record_of(0, text));
    CHECK_EQ(pair.receive(0, into), ssize_t{-EBADMSG});
  }
  {
    Pair pair;
    const auto records = begin(pair);
    pair.deliver(1, {records[1].begin(), records[1].end() - 1});
    CHECK_EQ(pair.receive(1, into), ssize_t{-EAGAIN});
    CHECK_EQ(shutdown(pair.fds[0], SHUT_WR), 0);
    CHECK_EQ(pair.receive(1, into), ssize_t{0});
  }
}

TEST("what travels does not contain what was sent") {
  Pair pair;
  const std::vector<char> text(4096, 'A');
  const std::vector<char> record = pair.record_of(0, text);
  CHECK(std::string(record.data(), record.size()).find("AAAA") == std::string::npos);
}

TEST("an operation whose data is altered on the way ends with an error that names the member, before anything is reduced") {
  for (size_t count : {100, 100'000}) {  // with the post, and after it
    Block block(2);
    Wires wires(2, Wire::pair);
    wires.is_encrypted = true;
    Control control(block.fd(), 0, 2);
    auto mesh = wires.mesh(0, control);
    CrossGroup group(mesh, std::make_shared<TcpTransport>(mesh), 1024);
    // Member 1: one whose bytes somebody alters.
    SealedStream other(keys_between(1, 0));
    const int line = wires.sockets[1][0];
    auto send = [&](const void* data, size_t bytes, bool is_altered) {
      const auto [from, to] = world::connect_two(Wire::pair);
      const iovec piece{const_cast<void*>(data), bytes};
      CHECK_EQ(other.send(from, &piece, 1), static_cast<ssize_t>(bytes));
      std::vector<char> record(bytes + 4 + tag_bytes);
      CHECK_EQ(recv(to, record.data(), record.size(), 0), static_cast<ssize_t>(record.size()));
      if (is_altered) record.back() = static_cast<char>(record.back() ^ 1);
      CHECK_EQ(::send(line, record.data(), record.size(), 0), static_cast<ssize_t>(record.size()));
      close(from);
      close(to);
    };
    const bool is_carried = count * 4 <= 1024;
    std::vector<float> data(count, 1), theirs(is_carried ? count : 5000, 2);
    std::vector<char> post(sizeof(Header) + (is_carried ? count * 4 : 0));
    const Header header{frame_magic, FrameKind::post, is_carried ? flag::carries : uint8_t{0}, 1, 1, 5, count * 4};
    std::memcpy(post.data(), &header, sizeof header);
    if (is_carried) std::memcpy(post.data() + sizeof header, theirs.data(), count * 4);
    send(post.data(), post.size(), is_carried);
    if (!is_carried) {
      const Header flow{frame_magic, FrameKind::data, 0, 1, 1, 1, count * 4};
      send(&flow, sizeof flow, false);
      send(theirs.data(), theirs.size() * 4, true);
    }
    Operation operation = allreduce_of(data);
    CHECK(group.run(operation, patient()) == Status::system_error);
    CHECK_EQ(group.errno_value(), EBADMSG);
    CHECK_EQ(group.culprit(), 1);
    for (float value : data) CHECK_EQ(value, 1.0f);
    block.leave(0);
  }
}

TEST("one member encrypts and the other does not: both get an error") {
  Block block(2);
  Wires wires(2, Wire::pair);
  std::unique_ptr<Control> controls[2];
  std::unique_ptr<CrossGroup> groups[2];
  for (int me : {0, 1}) {
    controls[me] = std::make_unique<Control>(block.fd(), me, 2);
    wires.is_encrypted = me == 0;
    auto mesh = wires.mesh(me, *controls[me]);
    groups[me] = std::make_unique<CrossGroup>(mesh, std::make_shared<TcpTransport>(mesh), 1024);
  }
  const int expected[2] = {EBADMSG, EPROTO};
  // Member 1 finds no ready byte, and says nothing.
  for (int me : {1, 0}) {
    if (me == 0) CHECK_EQ(::send(wires.sockets[1][0], "HVDF", 4, 0), ssize_t{4});
    std::vector<float> data(10, 1);
    Operation operation = allreduce_of(data);
    CHECK(groups[me]->run(operation, patient()) == Status::system_error);
    CHECK_EQ(groups[me]->errno_value(), expected[me]);
  }
  for (int me : {0, 1}) block.leave(me);
}
