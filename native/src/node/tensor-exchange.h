// ../tensorflow/tensor-exchange.h for JavaScript: the addon's functions that take tensors from TensorFlow and return
// them.
#pragma once

#include <node_api.h>

namespace hvd::node {

void add_tensor_exchange(napi_env env, napi_value exports);

}  // namespace hvd::node
