#include "peer-arena-functions.h"

#include <cstring>
#include <memory>

#include "group-object.h"

namespace hvd::node {
namespace {

struct PeerHandle {
  std::unique_ptr<PeerArena> arena;  // gone when it is closed
};

napi_value reject(napi_env env) {
  napi_throw_range_error(env, nullptr, "horovod: arguments of a function for arenas do not fit together");
  return nullptr;
}

// arenaFile(arena) → [descriptor, id]
napi_value arena_file(napi_env env, napi_callback_info info) {
  const auto& arena = external_in<ArenaHandle>(env, Arguments<1>(env, info)[0])->arena;
  if (!arena) return reject(env);
  return array_of(env, {from_int(env, arena->fd()), from_int(env, static_cast<int64_t>(arena->id()))});
}

// arenaOffset(arena, array) → where it lies in the file; -1: not in this arena
napi_value arena_offset(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  const auto& arena = external_in<ArenaHandle>(env, arguments[0])->arena;
  const Typed array = typed_array(env, arguments[1]);
  const uint64_t offset = arena && array.data ? arena->offset_of(array.data, array.bytes) : Arena::outside;
  return from_int(env, offset == Arena::outside ? -1 : static_cast<int64_t>(offset));
}

// openPeerArena(pid, descriptor, id) → peer
napi_value open_peer_arena(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  auto* handle = new PeerHandle{std::make_unique<PeerArena>(to_int(env, arguments[0]), to_int(env, arguments[1]),
                                                            static_cast<uint64_t>(to_int64(env, arguments[2])))};
  napi_value external;
  napi_create_external(env, handle, [](napi_env, void* data, void*) { delete static_cast<PeerHandle*>(data); }, nullptr,
                       &external);
  return external;
}

// copyFromPeer(peer, offset, target: Uint8Array) → boolean: false if that part of its arena cannot be reached
napi_value copy_from_peer(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  const auto& arena = external_in<PeerHandle>(env, arguments[0])->arena;
  const double offset = to_double(env, arguments[1]);
  const Typed target = typed_array(env, arguments[2]);
  constexpr double most = 9007199254740992.0;  // 2^53
  if (!arena || !(offset >= 0 && offset + static_cast<double>(target.bytes) <= most)) return reject(env);
  const auto start = static_cast<uint64_t>(offset);
  const bool is_reached = arena->reach(start + target.bytes);
  if (is_reached && target.bytes > 0) std::memcpy(target.data, arena->at(start), target.bytes);
  napi_value result;
  napi_get_boolean(env, is_reached, &result);
  return result;
}

// closePeerArena(peer): twice is fine
napi_value close_peer_arena(napi_env env, napi_callback_info info) {
  external_in<PeerHandle>(env, Arguments<1>(env, info)[0])->arena.reset();
  return undefined(env);
}

}  // namespace

void add_peer_arena_functions(napi_env env, napi_value exports) {
  set_function(env, exports, "arenaFile", arena_file, nullptr);
  set_function(env, exports, "arenaOffset", arena_offset, nullptr);
  set_function(env, exports, "openPeerArena", open_peer_arena, nullptr);
  set_function(env, exports, "copyFromPeer", copy_from_peer, nullptr);
  set_function(env, exports, "closePeerArena", close_peer_arena, nullptr);
}

}  // namespace hvd::node
