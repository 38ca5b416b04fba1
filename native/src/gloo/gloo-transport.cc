// The cross transport on libgloo: gloo's algorithms with our kernels, over connections that gloo makes itself (they are not
// authenticated; only the agreement before them is). gloo chooses the algorithms, and thus their price. Reducescatter is an
// allreduce (with its price) of which the rest is discarded: gloo has none for parts of any size.
//
// NOTE [Interrupting gloo]. A collective of gloo blocks until it is done or past its timeout. While one runs, a second thread
// checks the control block; if the job has failed, it makes all pairs of the context fail, as gloo does after a timeout.
//
// NOTE [Closing gloo]. gloo resets its connections when it closes them, which discards what the other side has not acknowledged.
// If the last packet of the last operation was lost, the other side would wait for it until its deadline. So a transport that is closed in
// an intact job first waits until everything has arrived, which without loss takes no longer than an acknowledgement.
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/broadcast.h>
#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "../cross/cross-transport-offer.h"
#include "../cross/unsent-bytes.h"
#include "../group/futex.h"

namespace hvd {

namespace {

using std::chrono::milliseconds;

// A packet that is lost several times in a row is sent again after 0.2, 0.4, 0.8 and 1.6 s.
constexpr int64_t max_closing_ns = 5'000'000'000;

milliseconds to_ms(int64_t ns) { return milliseconds(std::max<int64_t>(1, ns / 1'000'000)); }

class MeshContext final : public gloo::Context {
 public:
  MeshContext(std::shared_ptr<gloo::transport::Device> device, int index, int size) : gloo::Context(index, size) {
    device_ = std::move(device);
    transportContext_ = device_->createContext(index, size);
  }
  gloo::transport::Context& transport() { return *transportContext_; }

  // Any thread. A wait that times out makes gloo close all pairs; there is no direct way.
  void interrupt() {
    char nothing = 0;
    try {
      transportContext_->createUnboundBuffer(&nothing, 1)->waitRecv(nullptr, milliseconds(1));
    } catch (const std::exception&) {
    }
  }
};

std::string to_hex(const std::vector<char>& bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::vector<char> from_hex(const std::string& text) {
  std::vector<char> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char each : text) (each == ',' ? void(parts.emplace_back()) : void(parts.back() += each));
  return parts;
}

// Runs blocking calls of gloo such that a failure of the job ends them.
class Watched {
 public:
  // `is_over`: nobody needs the result any more. Throws std::system_error.
  Watched(MeshContext& context, std::function<bool()> is_over)
      : context_(context), is_pointless_(std::move(is_over)), thread_(&Watched::watch, this) {}
  ~Watched() {
    {
      std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // False: `error`.
  bool run(const std::function<void()>& call, std::string& error) {
    set_busy(true);
    bool is_done = true;
    try {
      call();
    } catch (const std::exception& exception) {
      error = exception.what();
      is_done = false;
    }
    set_busy(false);
    return is_done;
  }
  void stop() { stop_.store(true, std::memory_order_release); }
  bool stopping() const { return stop_.load(std::memory_order_acquire); }

 private:
  void set_busy(bool is_busy) {
    {
      std::lock_guard lock(mutex_);
      is_busy_ = is_busy;
    }
    if (is_busy) changed_.notify_all();
  }
  void watch() {
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      changed_.wait(lock, [&] { return is_busy_ || is_over_; });
      while (is_busy_ && !is_over_) {
        if (is_pointless_() || stopping()) {
          lock.unlock();
          context_.interrupt();
          lock.lock();
        }
        changed_.wait_for(lock, milliseconds(1), [&] { return is_over_; });
      }
    }
  }

  MeshContext& context_;
  std::function<bool()> is_pointless_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_busy_ = false;
  bool is_over_ = false;
  std::thread thread_;
};

class GlooTransport final : public CrossTransport {
 public:
  GlooTransport(Control& control, std::shared_ptr<MeshContext> context, std::unique_ptr<Watched> watched,
                std::vector<Connection> connections)
      : control_(control), context_(std::move(context)), watched_(std::move(watched)), connections_(std::move(connections)) {}
  ~GlooTransport() override {
    watched_.reset();
    // The control block may be gone by now.
    if (is_intact_) wait_until_arrived(connections_, max_closing_ns);
    try {
      context_->closeConnections();
    } catch (const std::exception&) {
    }
  }

  Status allreduce(char* data, size_t count, DType dtype, Op op, const Patience& patience) override {
    if (count == 0) return Status::done;
    return run(patience, [&](milliseconds timeout) {
      gloo::AllreduceOptions options(context_);
      switch (element_bytes(dtype)) {
        case 1: options.setOutput(reinterpret_cast<uint8_t*>(data), count); break;
        case 2: options.setOutput(reinterpret_cast<uint16_t*>(data), count); break;
        case 4: options.setOutput(reinterpret_cast<uint32_t*>(data), count); break;
        default: options.setOutput(reinterpret_cast<uint64_t*>(data), count); break;
      }
      options.setReduceFunction([dtype, op](void* out, const void* first, const void* second, size_t elements) {
        const void* sources[] = {first, second};
        reduce(out, sources, 2, elements, dtype, op, 1);
      });
      options.setTag(tag_++);
      options.setTimeout(timeout);
      gloo::allreduce(options);
    });
  }

  Status reducescatter(char* data, const std::vector<size_t>& counts, DType dtype, Op op, const Patience& patience) override {
    size_t total = 0;
    for (size_t count : counts) total += count;
    return allreduce(data, total, dtype, op, patience);
  }

  Status allgather(char* data, const std::vector<size_t>& bytes, const Patience& patience) override {
    return run(patience, [&](milliseconds timeout) {
      gloo::AllgathervOptions options(context_);
      options.setOutput(reinterpret_cast<uint8_t*>(data), bytes);
      options.setTag(tag_++);
      options.setTimeout(timeout);
      gloo::allgatherv(options);
    });
  }

  Status broadcast(char* data, size_t bytes, int root, const Patience& patience) override {
    if (bytes == 0) return Status::done;
    return run(patience, [&](milliseconds timeout) {
      gloo::BroadcastOptions options(context_);
      options.setOutput(reinterpret_cast<uint8_t*>(data), bytes);
      options.setRoot(root);
      options.setTag(tag_++);
      options.setTimeout(timeout);
      gloo::broadcast(options);
    });
  }

  Status alltoall(const char* in, const std::vector<size_t>& send, char* out, const std::vector<size_t>& receive,
                  const Patience& patience) override {
    return run(patience, [&](milliseconds timeout) {
      gloo::AlltoallvOptions options(context_);
      options.setInput(reinterpret_cast<uint8_t*>(const_cast<char*>(in)), std::vector<int64_t>(send.begin(), send.end()));
      options.setOutput(reinterpret_cast<uint8_t*>(out), std::vector<int64_t>(receive.begin(), receive.end()));
      options.setTag(tag_++);
      options.setTimeout(timeout);
      gloo::alltoallv(options);
    });
  }

  void stop() override { watched_->stop(); }
  int culprit() const override { return -1; }  // gloo reports it only as text
  int errno_value() const override { return EIO; }

 private:
  Status run(const Patience& patience, const std::function<void(milliseconds)>& call) {
    if (control_.failed()) {
      is_intact_ = false;
      return Status::failed;
    }
    const int64_t began = monotonic_ns();
    std::string error;
    if (watched_->run([&] { call(to_ms(patience.timeout_ns)); }, error)) return Status::done;
    is_intact_ = false;
    // The control block soon knows of a peer that has died; that is more useful than the end of its connection.
    for (int64_t until = monotonic_ns() + 300'000'000; monotonic_ns() < until; usleep(1000)) {
      if (control_.failed()) return Status::failed;
      if (watched_->stopping()) return Status::stopped;
      if (monotonic_ns() - began >= patience.timeout_ns) return Status::timeout;
    }
    return Status::system_error;
  }

  Control& control_;
  std::shared_ptr<MeshContext> context_;
  std::unique_ptr<Watched> watched_;
  const std::vector<Connection> connections_;
  // No operation has failed.
  bool is_intact_ = true;
  uint32_t tag_ = 0;
};

class GlooOffer final : public CrossTransportOffer {
 public:
  GlooOffer(const CrossTransportMember& member, std::shared_ptr<gloo::transport::Device> device)
      : member_(member), context_(std::make_shared<MeshContext>(std::move(device), member.index, member.size)) {
    context_->transport().setTimeout(to_ms(member.timeout_ns));
    for (int i = 0; i < member.size; i++) {
      if (i > 0) text_ += ',';
      if (i == member.index) continue;
      text_ += to_hex(context_->transport().createPair(i)->address().bytes());
    }
  }

  // The addresses of the pairs with every other member, in hexadecimal digits, with commas.
  std::string text() const override { return text_; }

  std::shared_ptr<CrossTransport> open(const std::vector<std::string>& texts, int64_t timeout_ns, std::string& error) override {
    auto watched = std::make_unique<Watched>(*context_, [member = member_] { return member.is_over(); });
    context_->transport().setTimeout(to_ms(timeout_ns));
    context_->setTimeout(to_ms(timeout_ns));
    const bool is_connected = watched->run(
        [&] {
          for (int i = 0; i < context_->size; i++) {
            if (i == context_->rank) continue;
            context_->getPair(i)->connect(from_hex(split(texts.at(static_cast<size_t>(i))).at(static_cast<size_t>(context_->rank))));
          }
        },
        error);
    if (!is_connected) return nullptr;
    return std::make_shared<GlooTransport>(member_.control, context_, std::move(watched), open_connections(known_));
  }

 private:
  const CrossTransportMember member_;
  // Before gloo made any: those that are there later and not here may be its own.
  const std::vector<Connection> known_ = open_connections();
  std::shared_ptr<MeshContext> context_;
  std::string text_;
};

}  // namespace

std::unique_ptr<CrossTransportOffer> offer_cross_transport(const CrossTransportMember& member, std::string& error) {
  try {
    gloo::transport::tcp::attr attributes(member.address.c_str());
    return std::make_unique<GlooOffer>(member, gloo::transport::tcp::CreateDevice(attributes));
  } catch (const std::exception& exception) {
    error = exception.what();
  }
  return nullptr;
}

void close_cross_transports(bool) {}

}  // namespace hvd
