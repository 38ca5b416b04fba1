// ../shm/peer-arena.h for JavaScript: the addon's functions with which a process copies from the arena of another one on this
// host, outside of any group. The data service hands batches over so.
#pragma once

#include <node_api.h>

namespace hvd::node {

void add_peer_arena_functions(napi_env env, napi_value exports);

}  // namespace hvd::node
