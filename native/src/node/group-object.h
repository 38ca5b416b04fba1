// A group as a JavaScript object; see group-object.cc. open-group.cc makes the groups.
#pragma once

#include <memory>

#include "../group/control.h"
#include "../group/group.h"
#include "../shm/arena.h"
#include "values.h"

namespace hvd::node {

// What JavaScript holds as externals.
struct ControlHandle {
  std::shared_ptr<Control> control;  // shared with the threads that open cross transports
};
struct ArenaHandle {
  std::shared_ptr<Arena> arena;
};

// Reads spins, timeoutMs, stallAfterMs, report and mailbox from the options.
napi_value group_object(const Options& options, std::unique_ptr<Group> group);

napi_value open_group(napi_env env, napi_callback_info info);
napi_value open_cluster_group(napi_env env, napi_callback_info info);

extern const int64_t bytes_per_member;

}  // namespace hvd::node
