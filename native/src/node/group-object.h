// A group as a JavaScript object; see group-object.cc.
#pragma once

#include <memory>

#include "../group/control.h"
#include "../shm/arena.h"
#include "values.h"

namespace hvd::node {

// What JavaScript holds as externals.
struct ControlHandle {
  std::unique_ptr<Control> control;
};
struct ArenaHandle {
  std::shared_ptr<Arena> arena;
};

napi_value open_group(napi_env env, napi_callback_info info);

extern const int64_t bytes_per_member;

}  // namespace hvd::node
