// Moves the bytes of agreed operations over the sockets of a mesh, on the caller's thread. All algorithms are built from
// flows: a flow sends to one member and receives from another (or the same) at the same time, and forwards what it has
// received as soon as that has been reduced. tcp-transport.cc states the steps and bytes of each algorithm.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "../cross/cross-transport.h"
#include "../cross/mesh.h"

namespace hvd {

class TcpTransport final : public CrossTransport {
 public:
  explicit TcpTransport(std::shared_ptr<Mesh> mesh);

  Status allreduce(char* data, size_t count, DType dtype, Op op, const Patience& patience) override;
  Status reducescatter(char* data, const std::vector<size_t>& counts, DType dtype, Op op,
                       const Patience& patience) override;
  Status allgather(char* data, const std::vector<size_t>& bytes, const Patience& patience) override;
  Status broadcast(char* data, size_t bytes, int root, const Patience& patience) override;
  Status alltoall(const char* in, const std::vector<size_t>& send, char* out, const std::vector<size_t>& receive,
                  const Patience& patience) override;
  void set_switch_bytes(size_t bytes) override { doubling_bytes_.store(bytes, std::memory_order_relaxed); }
  void stop() override { mesh_->stop(); }
  int culprit() const override { return mesh_->culprit(); }
  int errno_value() const override { return mesh_->errno_value(); }

 private:
  struct Segment {
    char* data;
    size_t bytes;
  };
  struct Flow {
    int to = -1, from = -1;        // -1: nobody
    std::vector<Segment> out, in;  // what is sent and received, in this order
    size_t ready = 0;              // bytes of `out` that may be sent at once; one more for each byte of `in` received or reduced
    size_t reduced_segments = 0;   // how many segments of `in`, from the first on, are combined with what is there
    DType dtype = DType::uint8;
    Op op = Op::sum;
    uint8_t flags = 0;
  };
  Status run(Flow& flow, const Patience& patience);
  Status ring(char* data, const std::vector<size_t>& starts, int first, int reduced, int segments, DType dtype, Op op,
              const Patience& patience);
  Status recursive_doubling(char* data, size_t bytes, DType dtype, Op op, const Patience& patience);

  std::shared_ptr<Mesh> mesh_;
  int size_, index_;
  std::atomic<size_t> doubling_bytes_{64 * 1024};  // an allreduce of up to this size uses recursive doubling
  uint64_t call_ = 0;  // the same on all members
  uint64_t step_ = 0;  // flow within the call
  std::vector<char> scratch_;
  std::vector<char> other_;  // a partner's values
};

}  // namespace hvd
