// ../reduce/lossy.h for JavaScript: the addon's `compressionKernels`, an object of the functions that
// src/tensor/compression/kernels.ts defines.
#pragma once

#include <node_api.h>

namespace hvd::node {

void add_lossy_functions(napi_env env, napi_value exports);

}  // namespace hvd::node
