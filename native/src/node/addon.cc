// The Node-API module and the functions it exports. Only this folder includes Node headers.
#include "group-object.h"

#include <signal.h>

#include <atomic>
#include <vector>

#include "../cross/record-cipher.h"
#include "../group/touch.h"
#include "../reduce/reduce.h"
#include "compute-functions.h"
#include "cross-transport-object.h"
#include "lossy-functions.h"
#include "peer-arena-functions.h"
#include "record-functions.h"
#include "tensor-exchange.h"

namespace hvd::node {
namespace {

void close_control(void* data) { static_cast<ControlHandle*>(data)->control.reset(); }

// openControl(fd, rank, ranks) → control. The process counts as alive until closeControl().
napi_value open_control(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  napi_value external;
  auto handle = std::make_unique<ControlHandle>();
  try {
    handle->control =
        std::make_shared<Control>(to_int(env, arguments[0]), to_int(env, arguments[1]), to_int(env, arguments[2]));
  } catch (const std::system_error& error) {
    return throw_system(env, error);
  }
  ControlHandle* raw = handle.release();
  napi_add_env_cleanup_hook(env, close_control, raw);
  napi_create_external(env, raw, nullptr, nullptr, &external);
  return external;
}

napi_value close_control_now(napi_env env, napi_callback_info info) {
  auto* handle = external_in<ControlHandle>(env, Arguments<1>(env, info)[0]);
  napi_remove_env_cleanup_hook(env, close_control, handle);
  close_control(handle);
  return undefined(env);
}

// fence(control, killAfterMs, giveUpAfterMs) → the rank that may still write into this process's memory, -1 if there is none
napi_value fence(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  auto ns = [&](size_t i) { return static_cast<int64_t>(to_double(env, arguments[i]) * 1e6); };
  const auto& control = external_in<ControlHandle>(env, arguments[0])->control;
  return from_int(env, control ? control->fence({ns(1), ns(2)}) : -1);
}

std::atomic<int> touches_until_stop{0};

void stop_at_touch_now() {
  if (touches_until_stop.fetch_sub(1) != 1) return;
  Touch::before_write.store(nullptr);
  raise(SIGSTOP);  // to this thread: it goes no further, and the others stop with it
}

// stopAtTouch(count): for tests. This process stops (SIGSTOP) with its count-th write into the memory of another rank begun.
napi_value stop_at_touch(napi_env env, napi_callback_info info) {
  touches_until_stop.store(to_int(env, Arguments<1>(env, info)[0]));
  Touch::before_write.store(stop_at_touch_now);
  return undefined(env);
}

// Increased whenever the exports change; src/transport/native/addon.ts has the same number.
constexpr int interface_version = 11;

// openArena() → arena
napi_value open_arena(napi_env env, napi_callback_info) {
  napi_value external;
  try {
    auto* handle = new ArenaHandle{std::make_shared<Arena>()};
    napi_create_external(env, handle, [](napi_env, void* data, void*) { delete static_cast<ArenaHandle*>(data); },
                         nullptr, &external);
    return external;
  } catch (const std::system_error& error) {
    return throw_system(env, error);
  }
}

// closeArena(arena): nothing more is allocated; it ends with the last of its blocks
napi_value close_arena(napi_env env, napi_callback_info info) {
  external_in<ArenaHandle>(env, Arguments<1>(env, info)[0])->arena.reset();
  return undefined(env);
}

struct Block {
  std::shared_ptr<Arena> arena;
  void* memory;
};

// alloc(arena, bytes) → ArrayBuffer, undefined if there is no memory, or null if this build of V8 does not accept
// external memory
napi_value alloc(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  napi_value buffer;
  auto bytes = static_cast<size_t>(to_double(env, arguments[1]));
  auto arena = external_in<ArenaHandle>(env, arguments[0])->arena;
  void* memory = arena ? arena->allocate(bytes) : nullptr;
  if (!memory) return undefined(env);
  auto* block = new Block{arena, memory};
  auto release = [](napi_env, void*, void* hint) {
    auto* freed = static_cast<Block*>(hint);
    freed->arena->release(freed->memory);
    delete freed;
  };
  if (napi_create_external_arraybuffer(env, memory, bytes, release, block, &buffer) == napi_ok) return buffer;
  release(env, memory, block);
  napi_get_null(env, &buffer);
  return buffer;
}

// adopt(arena, buffer: ArrayBuffer) → boolean: whether other ranks can now reach this memory without a copy
napi_value adopt(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  napi_value result;
  size_t bytes = 0;
  void* memory = nullptr;
  napi_get_arraybuffer_info(env, arguments[1], &memory, &bytes);
  const auto& arena = external_in<ArenaHandle>(env, arguments[0])->arena;
  napi_get_boolean(env, arena && arena->adopt(memory, bytes), &result);
  return result;
}

// retire(arena, arrays) → boolean: whether all of them lie in blocks of alloc(), none of which is used again
napi_value retire(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  auto arena = external_in<ArenaHandle>(env, arguments[0])->arena;
  uint32_t count = 0;
  napi_get_array_length(env, arguments[1], &count);
  bool are_blocks = true;
  for (uint32_t i = 0; i < count; i++) {
    napi_value element;
    napi_get_element(env, arguments[1], i, &element);
    const Typed array = typed_array(env, element);
    are_blocks = (array.bytes == 0 || (arena && arena->retire(array.data))) && are_blocks;
  }
  napi_value result;
  napi_get_boolean(env, are_blocks, &result);
  return result;
}

// reduceNow(output, inputs, dtype, op, prescale, postscale): the kernels alone, for tests
napi_value reduce_now(napi_env env, napi_callback_info info) {
  const Arguments<6> arguments(env, info);
  Typed out = typed_array(env, arguments[0]);
  auto type = static_cast<DType>(to_int(env, arguments[2]));
  auto reduce_op = static_cast<Op>(to_int(env, arguments[3]));
  double before = to_double(env, arguments[4]), after = to_double(env, arguments[5]);
  uint32_t inputs = 0;
  napi_get_array_length(env, arguments[1], &inputs);
  std::vector<std::vector<char>> scaled(inputs);
  std::vector<const void*> sources(inputs);
  for (uint32_t i = 0; i < inputs; i++) {
    napi_value element;
    napi_get_element(env, arguments[1], i, &element);
    Typed in = typed_array(env, element);
    sources[i] = in.data;
    if (before != 1.0) {
      scaled[i].resize(in.bytes);
      scale(scaled[i].data(), in.data, in.bytes / element_bytes(type), type, before);
      sources[i] = scaled[i].data();
    }
  }
  reduce(out.data, sources.data(), static_cast<int>(inputs), out.bytes / element_bytes(type), type, reduce_op, after);
  return undefined(env);
}

// narrowNow(output: Uint16Array, input: Float32Array, dtype), widenNow(output: Float32Array, input: Uint16Array, dtype): for tests
napi_value narrow_now(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  Typed out = typed_array(env, arguments[0]), in = typed_array(env, arguments[1]);
  narrow(out.data, reinterpret_cast<const float*>(in.data), out.bytes / 2, static_cast<DType>(to_int(env, arguments[2])));
  return undefined(env);
}

napi_value widen_now(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  Typed out = typed_array(env, arguments[0]), in = typed_array(env, arguments[1]);
  widen(reinterpret_cast<float*>(out.data), in.data, in.bytes / 2, static_cast<DType>(to_int(env, arguments[2])));
  return undefined(env);
}

// useInstructionSet(name) → boolean, for tests
napi_value use_instruction_set(napi_env env, napi_callback_info info) {
  const Arguments<1> arguments(env, info);
  napi_value result;
  char name[32] = "";
  napi_get_value_string_utf8(env, arguments[0], name, sizeof name, nullptr);
  napi_get_boolean(env, hvd::use_instruction_set(name), &result);
  return result;
}

}  // namespace
}  // namespace hvd::node

NAPI_MODULE_INIT() {
  using namespace hvd::node;
  set_function(env, exports, "openControl", open_control, nullptr);
  set_function(env, exports, "closeControl", close_control_now, nullptr);
  set_function(env, exports, "fence", fence, nullptr);
  set_function(env, exports, "stopAtTouch", stop_at_touch, nullptr);
  set_function(env, exports, "openArena", open_arena, nullptr);
  set_function(env, exports, "retire", retire, nullptr);
  set_function(env, exports, "closeArena", close_arena, nullptr);
  set_function(env, exports, "adopt", adopt, nullptr);
  set_function(env, exports, "openGroup", open_group, nullptr);
  set_function(env, exports, "openClusterGroup", open_cluster_group, nullptr);
  set_function(env, exports, "alloc", alloc, nullptr);
  set_function(env, exports, "reduceNow", reduce_now, nullptr);
  set_function(env, exports, "narrowNow", narrow_now, nullptr);
  set_function(env, exports, "widenNow", widen_now, nullptr);
  set_function(env, exports, "useInstructionSet", use_instruction_set, nullptr);
  add_lossy_functions(env, exports);
  add_record_functions(env, exports);
  add_peer_arena_functions(env, exports);
  add_compute_functions(env, exports);
  add_tensor_exchange(env, exports);
  if (add_cross_transport) add_cross_transport(env, exports);
  napi_value value;
  napi_create_string_utf8(env, hvd::instruction_set(), NAPI_AUTO_LENGTH, &value);
  napi_set_named_property(env, exports, "instructionSet", value);
  const char* lack = hvd::encryption_lack();
  napi_create_string_utf8(env, lack == nullptr ? "" : lack, NAPI_AUTO_LENGTH, &value);
  napi_set_named_property(env, exports, "encryptionLack", value);
  napi_set_named_property(env, exports, "interfaceVersion", from_int(env, interface_version));
  napi_set_named_property(env, exports, "bytesPerMember", from_int(env, bytes_per_member));
  return exports;
}
