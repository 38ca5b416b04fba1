// A group whose members are on several hosts: shared memory inside each host, a cross transport between hosts. Every
// operation has five phases:
//
//   inside   the members of a host agree (their fingerprints), and collect what has to leave the host
//   across   the leaders of the hosts agree; small data and tables of sizes travel with that
//   inside   the verdict: a round that the leader enters with another fingerprint if the hosts disagree
//   across   large data, each lane (see placement.h) its share
//   inside   every member takes its result
//
// No user byte is written before the verdict. A host whose members disagree tells the other hosts with a fingerprint that
// no other host has. The files: hierarchical-group.cc (rounds, waiting), reduction.cc (allreduce, reducescatter,
// broadcast), exchange.cc (allgather, alltoall).
#pragma once

#include <memory>
#include <vector>

#include "../cross/cross-transport.h"
#include "../group/control.h"
#include "../group/group.h"
#include "../shm/shm-group.h"
#include "placement.h"
#include "scratch.h"

namespace hvd {

class HierarchicalGroup final : public Group {
 public:
  // `ranks[i]` is the global rank of member i. `local`: the members of this host. `cross`: the members of this member's lane,
  // numbered by host; null without a lane. `transport` moves bytes among the same members; `cross` or `transport_owner` owns
  // it.
  HierarchicalGroup(Placement placement, int index, std::vector<int> ranks, Control& control, Arena* arena,
                    std::unique_ptr<ShmGroup> local, std::unique_ptr<Group> cross, CrossTransport* transport,
                    std::shared_ptr<void> transport_owner = nullptr);

  // Sends some operations among all members at once instead of by host, after all have agreed by host. `flat` has all
  // members.
  enum class Flat { allgather, all_but_allgather };
  void send_flat(Flat which, std::unique_ptr<Group> flat);

  void start(const Operation& operation) override;
  bool keeps_outputs() const override { return true; }  // in the plan of the parts
  Status arrive(const Patience& patience) override;
  Status execute(Operation& operation, const Patience& patience) override;
  Status check_idle() override;
  bool anyone_started() override;
  // Unknown without waiting: agreement takes several steps.
  bool everyone_arrived() override { return false; }
  void nap(int64_t timeout_ns) override;
  std::vector<int> missing() const override;
  bool probe_peer_memory(bool allowed) override { return local_->probe_peer_memory(allowed); }
  Status calibrate(bool wanted, const Patience& patience) override { return local_->calibrate(wanted, patience); }
  void set_switch_bytes(size_t bytes) override {
    if (transport_) transport_->set_switch_bytes(bytes);
    if (flat_) flat_->set_switch_bytes(bytes);
  }
  void stop() override;

  // An operation of at most this size crosses together with the leaders' agreement.
  static constexpr size_t small_bytes = 32 * 1024;
  // Larger ones run in pieces that stay in the caches between their steps: this many bytes for each lane and host. In a ring
  // of hosts that is large enough to hide the latency.
  static constexpr size_t piece_part_bytes = 128 * 1024;

 private:
  enum class Phase : uint32_t { idle, inside, across, verdict, executing };
  // A result that waits for the verdict: see arrive().
  struct Blob {
    std::vector<char> bytes;
    static char* allocate(void* context, size_t bytes) {
      auto* blob = static_cast<Blob*>(context);
      blob->bytes.resize(bytes + 1);
      blob->size = bytes;
      return blob->bytes.data();
    }
    size_t size = 0;
  };
  // For a result whose place is known already.
  static char* allocate_at(void* context, size_t) { return static_cast<char*>(context); }

  bool is_leader() const { return place_ == 0; }
  int lanes() const { return placement_.lanes; }
  size_t piece_bytes() const {
    return piece_part_bytes * static_cast<size_t>(placement_.lanes) * static_cast<size_t>(placement_.host_count());
  }
  // Whether the users' buffers are packed into packed_ first, and unpacked from there.
  static bool is_packed(const Operation& operation) { return operation.buffers.size() != 1 || operation.narrows; }
  // Where the result of a packed operation lies before it is unpacked.
  char* gathered_at() const { return here_count() == 1 ? shard_.data() : packed_.data(); }
  const std::vector<int>& here() const { return placement_.on(host_); }
  int here_count() const { return static_cast<int>(here().size()); }

  bool goes_flat(const Operation& operation) const;
  Status run_flat(Operation& operation, const Patience& patience);
  void start_inside(const Operation& operation);
  void start_verdict(bool agreed);
  Status wait_across(const Patience& patience);
  Status run_inside(Operation& operation, const Patience& patience);  // after the verdict
  Status from_local(Status status);
  Status from_cross(Status status) { return from_lane(status, cross_->culprit(), cross_->errno_value()); }
  Status from_transport(Status status) { return from_lane(status, transport_->culprit(), transport_->errno_value()); }
  Status from_lane(Status status, int host, int error);
  static Patience without_stalls(Patience patience) {
    patience.stall_ns = 0;
    return patience;
  }

  // reduction.cc
  bool start_allreduce(const Operation& operation);
  bool start_reducescatter(const Operation& operation);
  bool start_broadcast(const Operation& operation);
  Status allreduce(Operation& operation, const Patience& patience);
  Status reducescatter(Operation& operation, const Patience& patience);
  Status broadcast(Operation& operation, const Patience& patience);
  bool describe_reduction(const Operation& operation, size_t offset, size_t bytes);
  bool describe_scatter(const Operation& operation, size_t offset, size_t bytes);
  Status gather_shards(Operation& operation, size_t offset, size_t bytes, size_t element, const Patience& patience);

  // exchange.cc
  void start_allgather(const Operation& operation);
  void start_alltoall(const Operation& operation);
  void exchange_tables();
  Status malformed(int host);
  void allgather_across();
  void alltoall_across();
  Status allgather(Operation& operation, const Patience& patience);
  Status alltoall(Operation& operation, const Patience& patience);

  const Placement placement_;
  const std::vector<int> ranks_;
  const int host_;
  const int place_;  // among the members of this host
  Control& control_;
  std::unique_ptr<ShmGroup> local_;
  std::unique_ptr<Group> cross_;
  std::unique_ptr<Group> flat_;  // null: all operations go by host
  Flat flat_kinds_ = Flat::allgather;
  CrossTransport* transport_;
  std::shared_ptr<void> transport_owner_;

  std::atomic<Phase> phase_{Phase::idle};
  bool disagrees_ = false;  // the members of this host
  bool has_memory_ = true;
  int64_t next_stall_ = 0;  // while the leader waits for other hosts
  bool has_noted_ = false;
  Operation asked_;         // by start()
  Operation inside_, across_, verdict_;
  Blob inside_blob_, across_blob_, verdict_blob_;
  Scratch packed_, shard_, gathered_;
};

}  // namespace hvd
