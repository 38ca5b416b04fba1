// The kernels of native/src/compute as functions of the addon.
#pragma once

#include <node_api.h>

namespace hvd::node {

void add_compute_functions(napi_env env, napi_value exports);

}  // namespace hvd::node
