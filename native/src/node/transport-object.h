// Transports as JavaScript sees them. transport-object.cc is in the addons of mpi and gloo only.
#pragma once

#include <memory>

#include "../cross/transport.h"
#include "values.h"

namespace hvd::node {

// What is behind a NativeTransport.
struct TransportHandle {
  std::shared_ptr<Transport> transport;
};

// Adds offerTransport(), openTransport() and closeTransports() to an addon that has an transport of its own; absent from the main one.
__attribute__((weak)) void add_transport(napi_env env, napi_value exports);

// Null if the value is not a NativeTransport (but the string 'tcp').
inline std::shared_ptr<Transport> transport_of(napi_env env, napi_value value) {
  napi_valuetype type;
  void* handle = nullptr;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_external) return nullptr;
  napi_get_value_external(env, value, &handle);
  return static_cast<TransportHandle*>(handle)->transport;
}

}  // namespace hvd::node
