// Allgather and alltoall over several hosts. The sizes cross with the leaders' agreement; the verdict brings them to all
// members.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "hierarchical-group.h"

namespace hvd {

namespace {

// A host's data of at most this size crosses together with its sizes.
constexpr size_t with_sizes_bytes = 16 * 1024;
constexpr uint64_t max_bytes = uint64_t{1} << 46;  // of one member: no sum overflows

uint64_t word_at(const char* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

char* allocate_in(void* scratch, size_t bytes) {
  auto* memory = static_cast<Scratch*>(scratch);
  return memory->reserve(bytes + 1) ? memory->data() : nullptr;
}

// Allocates the result, of `received` bytes from each member, and fills in their offsets.
bool allocate_result(Operation& operation, std::vector<size_t>& offsets) {
  size_t offset = 0;
  for (uint64_t bytes : operation.received) {
    offsets.push_back(offset);
    offset += bytes;
  }
  return operation.allocate_result();
}

void copy(char* to, const char* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

// The message of this host's leader is inconsistent with what was agreed on.
Status HierarchicalGroup::malformed(int host) {
  culprit_ = placement_.on(host)[0];
  errno_ = EPROTO;
  return Status::system_error;
}

// The leaders will gather their messages, and the verdict brings them to all members.
void HierarchicalGroup::exchange_tables() {
  auto gather_into = [](Operation& operation, Blob& blob) {
    operation.kind = Kind::allgather;
    operation.buffers.assign(1, {nullptr, nullptr, 0});
    operation.allocate = Blob::allocate;
    operation.allocate_context = &blob;
  };
  gather_into(across_, across_blob_);
  gather_into(verdict_, verdict_blob_);
}

// --- allgather --------------------------------------------------------------------------------------------------------------

void HierarchicalGroup::start_allgather(const Operation& operation) {
  inside_.kind = Kind::allgather;
  inside_.buffers = operation.buffers;
  inside_.allocate = allocate_in;
  inside_.allocate_context = &gathered_;
  exchange_tables();
}

// The leader's message: the sizes of its host's members, and the data if there is little.
void HierarchicalGroup::allgather_across() {
  const size_t table = here().size() * sizeof(uint64_t);
  const size_t data = inside_.result_bytes <= with_sizes_bytes ? inside_.result_bytes : 0;
  char* message = Blob::allocate(&inside_blob_, table + data);
  std::memcpy(message, inside_.received.data(), table);
  copy(message + table, gathered_.data(), data);
  across_.buffers[0] = {message, message, table + data};
}

// Small: with the sizes. Otherwise each lane sends its share of its host's data once around the lanes, n/L·(H-1) bytes for n
// bytes per host, and the lanes' shares are gathered inside the host.
Status HierarchicalGroup::allgather(Operation& operation, const Patience& patience) {
  const int hosts = placement_.host_count();
  operation.received.assign(static_cast<size_t>(size_), 0);
  std::vector<size_t> totals(static_cast<size_t>(hosts));
  std::vector<const char*> blocks(static_cast<size_t>(hosts));  // each host's data, in the order of its members
  bool has_all = true;
  const char* message = verdict_blob_.bytes.data();
  size_t left = verdict_blob_.size;
  for (int host = 0; host < hosts; host++) {
    size_t& total = totals[static_cast<size_t>(host)];
    const size_t table = placement_.on(host).size() * sizeof(uint64_t);
    if (left < table) return malformed(host);
    left -= table;
    for (int member : placement_.on(host)) {
      const uint64_t bytes = word_at(message);
      if (bytes > max_bytes || (member == index_ && bytes != operation.buffers[0].bytes)) return malformed(host);
      total += operation.received[static_cast<size_t>(member)] = bytes;
      message += sizeof(uint64_t);
    }
    blocks[static_cast<size_t>(host)] = message;
    if (total > with_sizes_bytes) {
      has_all = false;
      continue;
    }
    if (left < total) return malformed(host);
    left -= total;
    message += total;
  }
  if (left != 0) return malformed(hosts - 1);
  // What the members of this host have collected among themselves.
  if (totals[static_cast<size_t>(host_)] != inside_.result_bytes) return malformed(host_);
  std::vector<size_t> offsets;
  if (!allocate_result(operation, offsets)) return Status::no_memory;
  // Bytes [from, to) of a host's block go where they belong.
  auto place = [&](int host, size_t from, size_t to, const char* data) {
    size_t start = 0;
    for (int member : placement_.on(host)) {
      const size_t end = start + operation.received[static_cast<size_t>(member)];
      const size_t first = std::max(start, from), last = std::min(end, to);
      if (first < last)
        std::memcpy(operation.result + offsets[static_cast<size_t>(member)] + (first - start), data + (first - from), last - first);
      start = end;
    }
  };
  if (has_all) {
    for (int host = 0; host < hosts; host++)
      place(host, 0, totals[static_cast<size_t>(host)], blocks[static_cast<size_t>(host)]);
    return Status::done;
  }
  auto share = [&](int host, int lane) {
    const size_t total = totals[static_cast<size_t>(host)];
    return cut(total, lane + 1, lanes()) - cut(total, lane, lanes());
  };
  size_t mine = 0;
  if (place_ < lanes()) {
    std::vector<size_t> shares;
    size_t own_start = 0;
    for (int host = 0; host < hosts; host++) {
      if (host == host_) own_start = mine;
      shares.push_back(share(host, place_));
      mine += shares.back();
    }
    if (!shard_.reserve(mine + 1)) return Status::no_memory;
    copy(shard_.data() + own_start, gathered_.data() + cut(totals[static_cast<size_t>(host_)], place_, lanes()),
         shares[static_cast<size_t>(host_)]);
    Status status = from_transport(transport_->allgather(shard_.data(), shares, patience));
    if (status != Status::done) return status;
  }
  inside_.is_followed = false;
  inside_.buffers.assign(1, {shard_.data(), shard_.data(), mine});
  inside_.allocate = allocate_in;
  inside_.allocate_context = &packed_;
  if (Status status = run_inside(inside_, patience); status != Status::done) return status;
  size_t total = 0;
  for (size_t each : totals) total += each;
  if (inside_.result_bytes != total) return malformed(host_);
  const char* from = packed_.data();
  for (int lane = 0; lane < lanes(); lane++) {
    for (int host = 0; host < hosts; host++) {
      const size_t start = cut(totals[static_cast<size_t>(host)], lane, lanes());
      place(host, start, start + share(host, lane), from);
      from += share(host, lane);
    }
  }
  return Status::done;
}

// --- alltoall -----------------------------------------------------------------------------------------------------------------

// The first round inside and the leaders' messages carry the table of sizes, a row of a word for each member.
void HierarchicalGroup::start_alltoall(const Operation&) {
  char* row = reinterpret_cast<char*>(asked_.counts.data());
  inside_.kind = Kind::allgather;
  inside_.buffers.assign(1, {row, row, asked_.counts.size() * sizeof(uint64_t)});
  inside_.allocate = Blob::allocate;
  inside_.allocate_context = &inside_blob_;
  exchange_tables();
}

void HierarchicalGroup::alltoall_across() {
  across_.buffers[0] = {inside_blob_.bytes.data(), inside_blob_.bytes.data(), inside_blob_.size};
}

// Lane p mod L carries the data of the member in place p of a host: the data goes to that lane, across, and from the lane of
// the other host to its destination. Every byte crosses once, and is copied up to twice inside each host.
Status HierarchicalGroup::alltoall(Operation& operation, const Patience& patience) {
  const int hosts = placement_.host_count();
  std::vector<const char*> rows(static_cast<size_t>(size_));
  const char* row = verdict_blob_.bytes.data();
  if (verdict_blob_.size != rows.size() * rows.size() * sizeof(uint64_t)) return malformed(host_);
  for (int host = 0; host < hosts; host++)
    for (int member : placement_.on(host)) {
      rows[static_cast<size_t>(member)] = row;
      for (size_t to = 0; to < rows.size(); to++, row += sizeof(uint64_t)) {
        const uint64_t bytes = word_at(row);
        if (bytes > max_bytes || (member == index_ && bytes != asked_.counts[to])) return malformed(host);
      }
    }
  auto sent = [&](int from, int to) -> size_t {
    return word_at(rows[static_cast<size_t>(from)] + static_cast<size_t>(to) * sizeof(uint64_t));
  };
  auto start_of = [&](int from, int to) {
    size_t start = 0;
    for (int i = 0; i < to; i++) start += sent(from, i);
    return start;
  };
  auto carried = [&](int host, int lane) {
    std::vector<int> list;
    for (size_t place = static_cast<size_t>(lane); place < placement_.on(host).size(); place += static_cast<size_t>(lanes()))
      list.push_back(placement_.on(host)[place]);
    return list;
  };
  operation.received.assign(static_cast<size_t>(size_), 0);
  for (int i = 0; i < size_; i++) operation.received[static_cast<size_t>(i)] = sent(i, index_);
  std::vector<size_t> offsets;
  if (!allocate_result(operation, offsets)) return Status::no_memory;

  // To the carriers. Bytes behind the last count have no destination.
  const size_t total = start_of(index_, size_);
  inside_.kind = Kind::alltoall;
  inside_.is_followed = false;
  inside_.buffers.assign(1, {operation.buffers[0].in, nullptr, total});
  inside_.counts.assign(here().size(), 0);
  inside_.counts[static_cast<size_t>(place_ % lanes())] = total;
  inside_.allocate = allocate_in;
  inside_.allocate_context = &gathered_;
  if (Status status = run_inside(inside_, patience); status != Status::done) return status;
  for (size_t place = 0; place < here().size(); place++) {
    const bool is_carried = static_cast<int>(place) % lanes() == place_;
    if (inside_.received[place] != (is_carried ? start_of(here()[place], size_) : 0)) return malformed(host_);
  }

  inside_.counts.assign(here().size(), 0);
  size_t outgoing = 0;
  if (place_ < lanes()) {
    const std::vector<int> mine = carried(host_, place_);
    std::vector<size_t> send(static_cast<size_t>(hosts)), receive(static_cast<size_t>(hosts));
    size_t send_total = 0, receive_total = 0;
    for (int host = 0; host < hosts; host++) {
      for (int from : mine)
        for (int to : placement_.on(host)) send[static_cast<size_t>(host)] += sent(from, to);
      for (int from : carried(host, place_))
        for (int to : here()) receive[static_cast<size_t>(host)] += sent(from, to);
      send_total += send[static_cast<size_t>(host)];
      receive_total += receive[static_cast<size_t>(host)];
    }
    if (!shard_.reserve(send_total + 1) || !packed_.reserve(receive_total + 1)) return Status::no_memory;
    char* to_send = shard_.data();
    for (int host = 0; host < hosts; host++) {
      size_t start = 0;
      for (int from : mine) {
        for (int to : placement_.on(host)) {
          copy(to_send, gathered_.data() + start + start_of(from, to), sent(from, to));
          to_send += sent(from, to);
        }
        start += start_of(from, size_);
      }
    }
    Status status = from_transport(transport_->alltoall(shard_.data(), send, packed_.data(), receive, patience));
    if (status != Status::done) return status;

    // Sort by receiver what came sorted by sender.
    if (!shard_.reserve(receive_total + 1)) return Status::no_memory;
    char* next = shard_.data();
    for (size_t place = 0; place < here().size(); place++) {
      const char* came = packed_.data();
      for (int host = 0; host < hosts; host++) {
        for (int from : carried(host, place_)) {
          for (int to : here()) {
            const size_t bytes = sent(from, to);
            if (to == here()[place]) {
              copy(next, came, bytes);
              next += bytes;
              inside_.counts[place] += bytes;
            }
            came += bytes;
          }
        }
      }
    }
    outgoing = receive_total;
  }
  inside_.buffers.assign(1, {shard_.data(), nullptr, outgoing});
  if (Status status = run_inside(inside_, patience); status != Status::done) return status;
  if (inside_.result_bytes != operation.result_bytes) return malformed(host_);
  const char* from = gathered_.data();
  for (int lane = 0; lane < lanes(); lane++)
    for (int host = 0; host < hosts; host++)
      for (int sender : carried(host, lane)) {
        copy(operation.result + offsets[static_cast<size_t>(sender)], from, sent(sender, index_));
        from += sent(sender, index_);
      }
  return Status::done;
}

}  // namespace hvd
