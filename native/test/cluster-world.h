// Members of a HierarchicalGroup on several "hosts" in one process, a thread each, as in life: every host has its segment and
// its control block, lanes are connected by sockets, and so are all members where some operations go flat. There is no
// watch: what a host does not see for itself is told by tell_all().
#pragma once

#include <optional>

#include "hierarchical/hierarchical-group.h"
#include "mesh-world.h"

namespace world {

using Flat = hvd::HierarchicalGroup::Flat;

struct Cluster {
  hvd::Placement placement;
  std::vector<std::unique_ptr<Block>> blocks;  // by host
  std::vector<std::unique_ptr<MemoryFile>> segments;
  std::vector<std::unique_ptr<hvd::Control>> controls;
  std::vector<std::unique_ptr<hvd::Arena>> arenas;
  std::vector<std::unique_ptr<hvd::HierarchicalGroup>> groups;

  // `hosts[i]`: the host of member i.
  explicit Cluster(const std::vector<int>& hosts, std::optional<Flat> flat = std::nullopt, Wire wire = Wire::pair) : placement(hosts) {
    for (const std::vector<int>& there : placement.hosts) {
      blocks.push_back(std::make_unique<Block>(size()));
      segments.push_back(std::make_unique<MemoryFile>(hvd::ShmGroup::segment_bytes(static_cast<int>(there.size()))));
    }
    std::vector<std::unique_ptr<Wires>> lanes;
    for (int l = 0; l < placement.lanes; l++) lanes.push_back(std::make_unique<Wires>(placement.host_count(), wire));
    Wires everybody(flat ? size() : 0, wire);
    std::vector<int> ranks;
    for (int i = 0; i < size(); i++) ranks.push_back(i);
    for (int i = 0; i < size(); i++) {
      const int host = host_of(i), place = placement.local_of[static_cast<size_t>(i)];
      controls.push_back(std::make_unique<hvd::Control>(block_of(i).fd(), i, size()));
      arenas.push_back(std::make_unique<hvd::Arena>());
      hvd::Control& control = *controls.back();
      auto local = std::make_unique<hvd::ShmGroup>(segments[static_cast<size_t>(host)]->fd(), placement.on(host), place,
                                                   control, arenas.back().get());
      std::unique_ptr<hvd::CrossGroup> cross;
      if (place < placement.lanes)
        cross = crossing(lanes[static_cast<size_t>(place)]->mesh(host, control, placement.lane(place)));
      hvd::CrossTransport* transport = cross ? &cross->transport() : nullptr;
      groups.push_back(std::make_unique<hvd::HierarchicalGroup>(placement, i, ranks, control, arenas.back().get(),
                                                                std::move(local), std::move(cross), transport));
      if (flat) groups.back()->send_flat(*flat, crossing(everybody.mesh(i, control)));
    }
    for (auto& group : groups) group->probe_peer_memory(true);
  }
  ~Cluster() {
    for (int i = 0; i < size(); i++) block_of(i).leave(i);
  }
  int size() const { return placement.members(); }
  int host_of(int i) const { return placement.host_of[static_cast<size_t>(i)]; }
  Block& block_of(int i) { return *blocks[static_cast<size_t>(host_of(i))]; }
  hvd::HierarchicalGroup& group(int i) { return *groups[static_cast<size_t>(i)]; }
  void together(const std::function<void(int)>& part) { world::together(size(), part); }

  // What the watches do when a member has failed.
  void tell_all() {
    for (auto& block : blocks) block->fail();
  }
  // Its process ends: its connections close, its life word says so.
  void kill(int i) {
    groups[static_cast<size_t>(i)].reset();
    controls[static_cast<size_t>(i)].reset();
  }

 private:
  static std::unique_ptr<hvd::CrossGroup> crossing(const std::shared_ptr<hvd::Mesh>& mesh) {
    return std::make_unique<hvd::CrossGroup>(mesh, std::make_shared<hvd::TcpTransport>(mesh),
                                             hvd::CrossGroup::default_carried_bytes(mesh->size()));
  }
};

}  // namespace world
