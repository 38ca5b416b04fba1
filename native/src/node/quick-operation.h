// A quick operation: its numbers come in the mailbox, its arrays as arguments, and what is remembered of it lies in TypeScript
// (src/operations/compiled).
#pragma once

#include "mailbox.h"

namespace hvd::node {

// Fills the group's reusable operation from the mailbox and (input, output): arrays, or lists of arrays.
Operation& read_quick(napi_env env, GroupHandle* handle, napi_value input, napi_value output);

// It goes on somewhere else: results go into the arrays, never into the mailbox, and those of unknown size into memory from
// `allocate`.
void detach_quick(napi_env env, GroupHandle* handle, napi_value output, char* (*allocate)(void*, size_t), Operation& operation);

// What the call returns for an operation that is done: 0, or a result that does not fit.
napi_value end_quick(napi_env env, GroupHandle* handle, const Operation& operation);

}  // namespace hvd::node
