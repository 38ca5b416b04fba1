// Engines as JavaScript sees them. engine-object.cc is in the addons of mpi and gloo only.
#pragma once

#include <memory>

#include "../cross/engine.h"
#include "values.h"

namespace hvd::node {

// What is behind a NativeEngine.
struct EngineHandle {
  std::shared_ptr<Engine> engine;
};

// Adds offerEngine(), openEngine() and closeEngines() to an addon that has an engine of its own; absent from the main one.
__attribute__((weak)) void add_engine(napi_env env, napi_value exports);

// Null if the value is not a NativeEngine (but the string 'tcp').
inline std::shared_ptr<Engine> engine_of(napi_env env, napi_value value) {
  napi_valuetype type;
  void* handle = nullptr;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_external) return nullptr;
  napi_get_value_external(env, value, &handle);
  return static_cast<EngineHandle*>(handle)->engine;
}

}  // namespace hvd::node
