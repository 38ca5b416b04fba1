// Opens groups: over shared memory, over sockets, or over both. src/transport/native/addon.ts describes the options.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include "../cross/cross-group.h"
#include "../hierarchical/hierarchical-group.h"
#include "../shm/shm-group.h"
#include "../tcp/tcp-transport.h"
#include "cross-transport-object.h"
#include "group-object.h"

namespace hvd::node {

namespace {

// The options of both functions.
struct GroupSpec {
  Control& control;
  Arena* arena;
  std::vector<int> ranks;
  int index;
  int segment_fd;
};

GroupSpec spec_from(const Options& options) {
  Control* control = options.external<ControlHandle>("control")->control.get();
  if (!control) throw std::system_error(ECANCELED, std::generic_category(), "the transport was closed");
  return {*control, options.external<ArenaHandle>("arena")->arena.get(),
          options.integers("ranks"), options.integer("index"), options.integer("segmentFd")};
}

// The further options of openClusterGroup().
struct ClusterSpec : GroupSpec {
  std::vector<int> hosts;
  std::vector<int> sockets, accepted;  // by member; where only some operations are flat, those for them follow
  Mesh::Keys keys;                            // by socket; none where a connection is not encrypted
  std::shared_ptr<CrossTransport> transport;  // null: tcp
};

Mesh::Keys keys_from(const Options& options) {
  const napi_value list = options.get("keys");
  uint32_t count = 0;
  napi_get_array_length(options.env, list, &count);
  Mesh::Keys keys(count);
  for (uint32_t i = 0; i < count; i++) {
    napi_value element;
    napi_get_element(options.env, list, i, &element);
    const Typed bytes = typed_array(options.env, element);
    if (bytes.bytes == sizeof(SealedStream::Keys)) std::memcpy(&keys[i].emplace(), bytes.data, bytes.bytes);
  }
  return keys;
}

// A group over sockets, of these members only; `place` is ours in the list.
std::unique_ptr<CrossGroup> cross_group(const ClusterSpec& spec, const std::vector<int>& members, int place,
                                        size_t first_socket = 0) {
  std::vector<int> ranks, sockets;
  std::vector<bool> accepted;
  Mesh::Keys keys;
  for (int member : members) {
    const auto i = static_cast<size_t>(member);
    ranks.push_back(spec.ranks[i]);
    sockets.push_back(member == spec.index ? -1 : spec.sockets[first_socket + i]);
    accepted.push_back(spec.accepted[first_socket + i] != 0);
    keys.push_back(spec.keys[first_socket + i]);
    if (member != spec.index && spec.sockets[first_socket + i] < 0)
      throw std::system_error(ENOTCONN, std::generic_category(), "no socket for rank " + std::to_string(spec.ranks[i]));
  }
  auto mesh = std::make_shared<Mesh>(sockets, accepted, ranks, place, spec.control, Mesh::default_silence_ns, keys);
  std::shared_ptr<CrossTransport> transport = spec.transport;
  if (!transport) transport = std::make_shared<TcpTransport>(mesh);
  return std::make_unique<CrossGroup>(mesh, transport, CrossGroup::default_carried_bytes(static_cast<int>(members.size())));
}

std::unique_ptr<Group> flat_group(const ClusterSpec& spec, size_t first_socket = 0) {
  std::vector<int> all;
  for (size_t i = 0; i < spec.ranks.size(); i++) all.push_back(static_cast<int>(i));
  return cross_group(spec, all, spec.index, first_socket);
}

std::unique_ptr<HierarchicalGroup> hierarchical_group(const ClusterSpec& spec) {
  Placement placement(spec.hosts);
  const auto index = static_cast<size_t>(spec.index);
  const int host = placement.host_of[index], place = placement.local_of[index];
  std::vector<int> local_ranks;
  for (int member : placement.on(host)) local_ranks.push_back(spec.ranks[static_cast<size_t>(member)]);
  int fd = spec.segment_fd;
  if (fd < 0) {  // alone on its host
    fd = memfd_create("horovod", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(ShmGroup::segment_bytes(1))) != 0) {
      const int error = errno;
      if (fd >= 0) close(fd);
      throw std::system_error(error, std::generic_category(), "memory for a member alone on its host");
    }
  }
  struct Closer {
    int fd;
    ~Closer() {
      if (fd >= 0) close(fd);
    }
  } closer{spec.segment_fd < 0 ? fd : -1};
  auto local = std::make_unique<ShmGroup>(fd, local_ranks, place, spec.control, spec.arena);
  std::unique_ptr<CrossGroup> cross;
  CrossTransport* transport = nullptr;
  if (place < placement.lanes) {
    cross = cross_group(spec, placement.lane(place), host);
    transport = &cross->transport();
  }
  return std::make_unique<HierarchicalGroup>(std::move(placement), spec.index, spec.ranks, spec.control, spec.arena,
                                             std::move(local), std::move(cross), transport, spec.transport);
}

std::unique_ptr<Group> cluster_group(const ClusterSpec& spec, bool hierarchical_allreduce, bool hierarchical_allgather) {
  if (!hierarchical_allreduce && !hierarchical_allgather) return flat_group(spec);
  auto group = hierarchical_group(spec);
  using Flat = HierarchicalGroup::Flat;
  if (hierarchical_allreduce != hierarchical_allgather)
    group->send_flat(hierarchical_allreduce ? Flat::allgather : Flat::all_but_allgather,
                     flat_group(spec, spec.ranks.size()));
  return group;
}

}  // namespace

const int64_t bytes_per_member = sizeof(Member);

// openGroup(options) → group
napi_value open_group(napi_env env, napi_callback_info info) {
  const Options options{env, Arguments<1>(env, info)[0]};
  try {
    const GroupSpec spec = spec_from(options);
    return group_object(
        options, std::make_unique<ShmGroup>(spec.segment_fd, spec.ranks, spec.index, spec.control, spec.arena));
  } catch (const std::system_error& error) {
    return throw_system(env, error);
  }
}

// openClusterGroup(options) → group
napi_value open_cluster_group(napi_env env, napi_callback_info info) {
  const Options options{env, Arguments<1>(env, info)[0]};
  try {
    const ClusterSpec spec{spec_from(options),
                           options.integers("hosts"),
                           options.integers("sockets"),
                           options.integers("accepted"),
                           keys_from(options),
                           cross_transport_of(env, options.get("transport"))};
    return group_object(options, cluster_group(spec, options.boolean("hierarchicalAllreduce"),
                                               options.boolean("hierarchicalAllgather")));
  } catch (const std::system_error& error) {
    return throw_system(env, error);
  }
}

}  // namespace hvd::node
