#include "hierarchical-group.h"

#include <algorithm>
#include <utility>

namespace hvd {

namespace {
// Fingerprints of the rounds inside a host that follow the first one. Any numbers will do: those rounds are never compared
// with others.
constexpr uint64_t agreed_fingerprint = 0x61677265656421;
constexpr uint64_t disagreed_fingerprint = 0x646966666572;
constexpr uint64_t inside_fingerprint = 0x696e73696465;

// Differs between hosts: two hosts that disagree inside must not seem to agree with each other.
uint64_t poison(int host) { return 0x706f69736f6e0000u ^ (static_cast<uint64_t>(host + 1) * 0x9e3779b97f4a7c15u); }
}  // namespace

HierarchicalGroup::HierarchicalGroup(Placement placement, int index, std::vector<int> ranks, Control& control,
                                     Arena* arena, std::unique_ptr<ShmGroup> local, std::unique_ptr<Group> cross,
                                     CrossTransport* transport, std::shared_ptr<void> transport_owner)
    : Group(placement.members(), index),
      placement_(std::move(placement)),
      ranks_(std::move(ranks)),
      host_(placement_.host_of[static_cast<size_t>(index)]),
      place_(placement_.local_of[static_cast<size_t>(index)]),
      control_(control),
      local_(std::move(local)),
      cross_(std::move(cross)),
      transport_(transport),
      transport_owner_(std::move(transport_owner)),
      packed_(arena),
      shard_(arena),
      gathered_(arena) {}

void HierarchicalGroup::stop() {
  Group::stop();
  local_->stop();
  if (cross_) cross_->stop();
  if (transport_) transport_->stop();
  if (flat_) flat_->stop();
}

void HierarchicalGroup::send_flat(Flat which, std::unique_ptr<Group> flat) {
  flat_kinds_ = which;
  flat_ = std::move(flat);
}

bool HierarchicalGroup::goes_flat(const Operation& operation) const {
  if (!flat_ || operation.kind == Kind::barrier) return false;
  return (operation.kind == Kind::allgather) == (flat_kinds_ == Flat::allgather);
}

// All have agreed already; a mismatch now would be a bug of ours, and is reported as one.
Status HierarchicalGroup::run_flat(Operation& operation, const Patience& patience) {
  const Status status = flat_->run(operation, patience);
  if (status == Status::done || status == Status::mismatch) return status;
  culprit_ = flat_->culprit();
  errno_ = flat_->errno_value();
  return status;
}

// --- statuses: members of a host or of a lane become members of the group ----------------------------------------------

Status HierarchicalGroup::from_local(Status status) {
  if (status == Status::done || status == Status::stalled || status == Status::mismatch) return status;
  const int who = local_->culprit();
  culprit_ = who >= 0 ? here()[static_cast<size_t>(who)] : -1;
  errno_ = local_->errno_value();
  return status;
}

Status HierarchicalGroup::from_lane(Status status, int host, int error) {
  if (status == Status::done || status == Status::stalled || status == Status::mismatch) return status;
  culprit_ = host >= 0 ? placement_.on(host)[static_cast<size_t>(place_)] : -1;
  errno_ = error;
  return status;
}

// --- rounds ---------------------------------------------------------------------------------------------------------------

void HierarchicalGroup::start(const Operation& operation) {
  asked_ = operation;
  disagrees_ = false;
  for (Operation* each : {&inside_, &across_, &verdict_}) {
    each->kind = Kind::barrier;
    each->dtype = operation.dtype;
    each->op = operation.op;
    each->root = 0;
    each->prescale = each->postscale = 1;
    each->buffers.clear();
    each->counts.clear();
    each->allocate = nullptr;
    each->result = nullptr;
  }
  start_inside(operation);
  inside_.is_followed = true;  // by the verdict
  if (!has_memory_) return;  // post nothing: the description is incomplete
  inside_.fingerprint = operation.fingerprint;
  phase_.store(Phase::inside, std::memory_order_relaxed);
  local_->start(inside_);
}

void HierarchicalGroup::start_inside(const Operation& operation) {
  has_memory_ = true;
  if (goes_flat(operation)) return;  // a barrier is enough to agree
  switch (operation.kind) {
    case Kind::allreduce: has_memory_ = start_allreduce(operation); break;
    case Kind::reducescatter: has_memory_ = start_reducescatter(operation); break;
    case Kind::broadcast: has_memory_ = start_broadcast(operation); break;
    case Kind::allgather: start_allgather(operation); break;
    case Kind::alltoall: start_alltoall(operation); break;
    case Kind::barrier: break;
  }
}

void HierarchicalGroup::start_verdict(bool agreed) {
  verdict_.fingerprint = agreed ? agreed_fingerprint : disagreed_fingerprint;
  phase_.store(Phase::verdict, std::memory_order_relaxed);
  local_->start(verdict_);
}

// The leader waits for the other hosts, and tells the members of its host which hosts are missing.
Status HierarchicalGroup::wait_across(const Patience& patience) {
  constexpr int64_t look_every_ns = 50'000'000;
  Patience slice = patience;
  slice.stall_ns = patience.stall_ns > 0 ? std::min(patience.stall_ns, look_every_ns) : look_every_ns;
  if (next_stall_ == 0) next_stall_ = monotonic_ns() + patience.stall_ns;
  for (;;) {
    const Status status = from_cross(cross_->arrive(slice));
    const bool is_over = status == Status::done || status == Status::mismatch;
    uint64_t missing[note_words] = {};
    if (!is_over)
      for (int host : cross_->missing())
        if (host < note_words * 64) missing[host / 64] |= uint64_t{1} << (host % 64);
    if (!is_over || has_noted_)
      for (int word = 0; word < note_words; word++) local_->note(word, missing[word]);
    has_noted_ = !is_over;
    if (status != Status::stalled) return status;
    if (patience.stall_ns > 0 && monotonic_ns() >= next_stall_) {
      next_stall_ = monotonic_ns() + patience.stall_ns;
      return Status::stalled;
    }
  }
}

Status HierarchicalGroup::arrive(const Patience& patience) {
  if (!has_memory_) return Status::no_memory;
  if (phase_.load(std::memory_order_relaxed) == Phase::inside) {
    Status status = from_local(local_->arrive(patience));
    if (status != Status::done && status != Status::mismatch) return status;
    disagrees_ = status == Status::mismatch;
    across_.fingerprint = disagrees_ ? poison(host_) : asked_.fingerprint;
    if (disagrees_) {
      if (!is_leader()) return Status::mismatch;
      across_.kind = Kind::barrier;
      across_.buffers.clear();
      cross_->start(across_);
    } else {
      // A post without data need not wait for the work inside the host.
      const bool crosses_early = is_leader() && across_.kind == Kind::barrier;
      if (crosses_early) cross_->start(across_);
      status = from_local(local_->execute(inside_, without_stalls(patience)));
      if (status != Status::done) return status;
      if (is_leader() && inside_.kind != Kind::barrier && asked_.kind == Kind::allgather) allgather_across();
      if (is_leader() && inside_.kind != Kind::barrier && asked_.kind == Kind::alltoall) alltoall_across();
      if (is_leader() && !crosses_early) cross_->start(across_);
    }
    next_stall_ = 0;
    if (is_leader())
      phase_.store(Phase::across, std::memory_order_relaxed);
    else
      start_verdict(true);
  }
  if (phase_.load(std::memory_order_relaxed) == Phase::across) {
    Status status = wait_across(patience);
    if (status != Status::done && status != Status::mismatch) return status;
    if (disagrees_) return Status::mismatch;
    const bool agreed = status == Status::done;
    if (agreed)
      if (status = from_cross(cross_->execute(across_, without_stalls(patience))); status != Status::done) return status;
    if (agreed && verdict_.kind == Kind::allgather) verdict_.buffers[0] = {across_blob_.bytes.data(), nullptr, across_blob_.size};
    if (!agreed && here_count() == 1) return Status::mismatch;
    start_verdict(agreed);
  }
  return from_local(local_->arrive(patience));
}

Status HierarchicalGroup::execute(Operation& operation, const Patience& given) {
  const Patience patience = without_stalls(given);
  phase_.store(Phase::executing, std::memory_order_relaxed);
  Status status = from_local(local_->execute(verdict_, patience));
  if (status != Status::done) return status;
  if (goes_flat(operation)) {
    status = run_flat(operation, patience);
    if (status == Status::done) phase_.store(Phase::idle, std::memory_order_relaxed);
    return status;
  }
  switch (operation.kind) {
    case Kind::allreduce: status = allreduce(operation, patience); break;
    case Kind::reducescatter: status = reducescatter(operation, patience); break;
    case Kind::allgather: status = allgather(operation, patience); break;
    case Kind::broadcast: status = broadcast(operation, patience); break;
    case Kind::alltoall: status = alltoall(operation, patience); break;
    case Kind::barrier: break;
  }
  if (status == Status::done) phase_.store(Phase::idle, std::memory_order_relaxed);
  return status;
}

Status HierarchicalGroup::run_inside(Operation& operation, const Patience& patience) {
  operation.fingerprint = inside_fingerprint;
  return from_local(local_->run(operation, patience));
}

// --- waiting ----------------------------------------------------------------------------------------------------------------

Status HierarchicalGroup::check_idle() {
  if (stopping()) return Status::stopped;
  if (Status status = control_.check(ranks_, index_, culprit_); status != Status::done) return status;
  return is_leader() ? from_cross(cross_->check_idle()) : Status::done;
}

bool HierarchicalGroup::anyone_started() {
  return local_->anyone_started() || (is_leader() && cross_->anyone_started());
}

void HierarchicalGroup::nap(int64_t timeout_ns) {
  // The leader checks the other hosts between naps.
  local_->nap(is_leader() ? std::min<int64_t>(timeout_ns, 200'000) : timeout_ns);
}

std::vector<int> HierarchicalGroup::missing() const {
  std::vector<int> list;
  const Phase phase = phase_.load(std::memory_order_relaxed);
  if (phase == Phase::across) {
    for (int host : cross_->missing())
      for (int member : placement_.on(host)) list.push_back(member);
  } else if (phase == Phase::verdict && !is_leader()) {
    // As the leader has published; nothing if it has not waited long itself.
    for (int host = 0; host < placement_.host_count(); host++)
      if (host < note_words * 64 && (local_->noted(0, host / 64) >> (host % 64) & 1))
        for (int member : placement_.on(host)) list.push_back(member);
    for (int member : local_->missing())
      if (list.empty()) list.push_back(here()[static_cast<size_t>(member)]);
  } else {
    for (int member : local_->missing()) list.push_back(here()[static_cast<size_t>(member)]);
  }
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace hvd
