// Which members of a group are on which host, in the numbering of the hierarchical group.
//
// Hosts are numbered in the order of their first members. On each host the members are numbered in index order (`local`);
// the first is the host's leader. The first `lanes` members of every host are *lanes*: lane l of a host is connected with
// lane l of all the others, so that every host sends and receives with as many processes as the smallest host has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

namespace hvd {

struct Placement {
  std::vector<std::vector<int>> hosts;  // members on each host
  std::vector<int> host_of;             // by member
  std::vector<int> local_of;
  int lanes = 0;

  // `host_numbers`: any number for each member, equal for members on the same host.
  explicit Placement(const std::vector<int>& host_numbers) {
    std::map<int, int> known;
    for (size_t i = 0; i < host_numbers.size(); i++) {
      const int host = known.emplace(host_numbers[i], static_cast<int>(known.size())).first->second;
      if (static_cast<size_t>(host) == hosts.size()) hosts.emplace_back();
      std::vector<int>& there = hosts[static_cast<size_t>(host)];
      host_of.push_back(host);
      local_of.push_back(static_cast<int>(there.size()));
      there.push_back(static_cast<int>(i));
    }
    size_t fewest = host_numbers.size();
    for (const std::vector<int>& there : hosts) fewest = std::min(fewest, there.size());
    lanes = static_cast<int>(fewest);
  }

  int host_count() const { return static_cast<int>(hosts.size()); }
  int members() const { return static_cast<int>(host_of.size()); }
  const std::vector<int>& on(int host) const { return hosts[static_cast<size_t>(host)]; }
  // One member a host, in the order of the hosts: the members of a lane.
  std::vector<int> lane(int number) const {
    std::vector<int> list;
    for (const std::vector<int>& there : hosts) list.push_back(there[static_cast<size_t>(number)]);
    return list;
  }
};

// Where part i of `total` starts when it is cut into `parts` parts that differ by one at most.
inline size_t cut(size_t total, int i, int parts) {
  const size_t each = total / static_cast<size_t>(parts), rest = total % static_cast<size_t>(parts);
  return each * static_cast<size_t>(i) + std::min(rest, static_cast<size_t>(i));
}

}  // namespace hvd
