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
  std::shared_ptr<Control> control;  // shared with transports that are being made, on threads of their own
};
struct ArenaHandle {
  std::shared_ptr<Arena> arena;
};

struct GroupSettings {
  int spins;
  double timeout_ms;
  double stall_ms;
  napi_value report;
  napi_value mailbox;
};
napi_value group_object(napi_env env, std::unique_ptr<Group> group, const GroupSettings& settings);

napi_value open_group(napi_env env, napi_callback_info info);
napi_value open_cluster_group(napi_env env, napi_callback_info info);

extern const int64_t bytes_per_member;

}  // namespace hvd::node
