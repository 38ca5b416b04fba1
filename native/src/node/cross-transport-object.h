// Cross transports as JavaScript sees them. cross-transport-object.cc is in the addons of mpi and gloo only.
#pragma once

#include <memory>

#include "../cross/cross-transport.h"
#include "values.h"

namespace hvd::node {

// Behind a NativeCrossTransport of src/transport/native/addon.ts.
struct CrossTransportHandle {
  std::shared_ptr<CrossTransport> transport;
};

// Adds offerCrossTransport(), openCrossTransport() and closeCrossTransports() to the addons of mpi and gloo. The main addon
// does not have it.
__attribute__((weak)) void add_cross_transport(napi_env env, napi_value exports);

// Null if the value is no NativeCrossTransport but the string 'tcp'.
inline std::shared_ptr<CrossTransport> cross_transport_of(napi_env env, napi_value value) {
  napi_valuetype type;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_external) return nullptr;
  return external_in<CrossTransportHandle>(env, value)->transport;
}

}  // namespace hvd::node
