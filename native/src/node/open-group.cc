// Opens groups: over shared memory, over sockets, or over both.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "../cross/cross-group.h"
#include "../hierarchical/hierarchical-group.h"
#include "../shm/shm-group.h"
#include "../tcp/tcp-transport.h"
#include "transport-object.h"
#include "group-object.h"

namespace hvd::node {

namespace {

std::vector<int> int_list(napi_env env, napi_value value) {
  Typed typed = typed_array(env, value);
  const int32_t* first = reinterpret_cast<const int32_t*>(typed.data);
  return {first, first + typed.bytes / sizeof(int32_t)};
}

GroupSettings settings_from(napi_env env, const napi_value* arguments) {
  return {to_int(env, arguments[0]), to_double(env, arguments[1]), to_double(env, arguments[2]), arguments[3],
          arguments[4]};
}

// What openClusterGroup() is given, by member of the group.
struct ClusterSpec {
  Control& control;
  Arena* arena;
  std::vector<int> ranks, hosts;
  int index;
  int segment_fd;
  std::vector<int> sockets, accepted;  // twice as long as the others where some operations go flat: those of all come second
  std::shared_ptr<Transport> transport;      // null: tcp
};

// Over sockets, among these members only; `place` is ours in the list.
std::unique_ptr<CrossGroup> cross_group(const ClusterSpec& spec, const std::vector<int>& members, int place,
                                        size_t first_socket = 0) {
  std::vector<int> ranks, sockets;
  std::vector<bool> accepted;
  for (int member : members) {
    const auto i = static_cast<size_t>(member);
    ranks.push_back(spec.ranks[i]);
    sockets.push_back(member == spec.index ? -1 : spec.sockets[first_socket + i]);
    accepted.push_back(spec.accepted[first_socket + i] != 0);
    if (member != spec.index && spec.sockets[first_socket + i] < 0)
      throw std::system_error(ENOTCONN, std::generic_category(), "no socket for rank " + std::to_string(spec.ranks[i]));
  }
  auto mesh = std::make_shared<Mesh>(sockets, accepted, ranks, place, spec.control);
  std::shared_ptr<Transport> transport = spec.transport;
  if (!transport) transport = std::make_shared<TcpTransport>(mesh);
  return std::make_unique<CrossGroup>(mesh, transport, CrossGroup::default_carried_bytes(static_cast<int>(members.size())));
}

std::unique_ptr<Group> flat_group(const ClusterSpec& spec, size_t first_socket = 0) {
  std::vector<int> all;
  for (size_t i = 0; i < spec.ranks.size(); i++) all.push_back(static_cast<int>(i));
  return cross_group(spec, all, spec.index, first_socket);
}

std::unique_ptr<Group> hierarchical_group(const ClusterSpec& spec, int mode) {
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
  Transport* transport = nullptr;
  if (place < placement.lanes) {
    cross = cross_group(spec, placement.lane(place), host);
    transport = &cross->transport();
  }
  auto group = std::make_unique<HierarchicalGroup>(std::move(placement), spec.index, spec.ranks, spec.control, spec.arena,
                                                   std::move(local), std::move(cross), transport, spec.transport);
  using Flat = HierarchicalGroup::Flat;
  if (mode != 3) group->send_flat(mode == 1 ? Flat::allgather : Flat::all_but_allgather, flat_group(spec, spec.ranks.size()));
  return group;
}

}  // namespace

const int64_t bytes_per_member = sizeof(Member);

// openGroup(control, arena, fd, ranks: Int32Array, index, spins, timeoutMs, stallMs, report, mailbox: Float64Array)
napi_value open_group(napi_env env, napi_callback_info info) {
  size_t count = 10;
  napi_value arguments[10];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  void *control, *arena;
  napi_get_value_external(env, arguments[0], &control);
  napi_get_value_external(env, arguments[1], &arena);
  try {
    return group_object(env,
                        std::make_unique<ShmGroup>(to_int(env, arguments[2]), int_list(env, arguments[3]),
                                                   to_int(env, arguments[4]),
                                                   *static_cast<ControlHandle*>(control)->control,
                                                   static_cast<ArenaHandle*>(arena)->arena.get()),
                        settings_from(env, arguments + 5));
  } catch (const std::system_error& error) {
    return throw_system(env, error);
  }
}

// openClusterGroup(control, arena, ranks: Int32Array, hosts: Int32Array, index, segmentFd, sockets: Int32Array,
//   accepted: Int32Array, mode, transport, spins, timeoutMs, stallMs, report, mailbox)
napi_value open_cluster_group(napi_env env, napi_callback_info info) {
  size_t count = 15;
  napi_value arguments[15];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  void *control, *arena;
  napi_get_value_external(env, arguments[0], &control);
  napi_get_value_external(env, arguments[1], &arena);
  ClusterSpec spec{*static_cast<ControlHandle*>(control)->control,
                   static_cast<ArenaHandle*>(arena)->arena.get(),
                   int_list(env, arguments[2]),
                   int_list(env, arguments[3]),
                   to_int(env, arguments[4]),
                   to_int(env, arguments[5]),
                   int_list(env, arguments[6]),
                   int_list(env, arguments[7]),
                   transport_of(env, arguments[9])};
  const int mode = to_int(env, arguments[8]);
  try {
    return group_object(env, mode != 0 ? hierarchical_group(spec, mode) : flat_group(spec),
                        settings_from(env, arguments + 10));
  } catch (const std::system_error& error) {
    return throw_system(env, error);
  }
}

}  // namespace hvd::node
