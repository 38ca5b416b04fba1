// ../data for JavaScript: the addon's `recordKernels`, an object of the functions that
// src/data/formats/tfrecord/record-kernels.ts defines, and `crc32cMethod`.
#pragma once

#include <node_api.h>

namespace hvd::node {

void add_record_functions(napi_env env, napi_value exports);

}  // namespace hvd::node
