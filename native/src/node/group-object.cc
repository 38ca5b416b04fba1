// A group as a JavaScript object: functions that carry the group as their data, so that nothing is unwrapped on
// the fast path. One JavaScript thread uses it; its worker thread runs queued batches and reports through a
// thread-safe function, which keeps the process alive only while batches are outstanding.
// src/transport/native/addon.ts describes the functions.
#include "group-object.h"

#include <sched.h>

#include <algorithm>

#include "quick-operation.h"
#include "read-operation.h"
#include "results.h"

namespace hvd::node {

namespace {

constexpr int queued = -1;

// The answer of a group that has been closed.
napi_value stopped(napi_env env) { return from_int(env, static_cast<int>(Status::stopped)); }

// runNow(input, output) → status, or a result that does not fit into the output; the rest is in the mailbox
napi_value run_now(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  Operation& operation = read_quick(env, handle, arguments[0], arguments[1]);
  begin_trace(handle);
  Status status = handle->group->run(operation, handle->defaults);
  end_trace(handle);
  stamp(handle);
  if (status == Status::done) return end_quick(env, handle, operation);
  detach_quick(env, handle, arguments[1], allocate_now, operation);
  keep_current(env, handle, status, array_of(env, {arguments[0], arguments[1]}));
  handle->current = operation;  // for resume()
  handle->current_patience = handle->defaults;
  handle->current_result = nullptr;
  return from_int(env, static_cast<int>(status));
}

Status wait_for_another(GroupHandle* handle, const Patience& patience) {
  const int64_t since = monotonic_ns();
  while (!handle->group->anyone_started()) {
    Status status = handle->group->check_idle();
    if (status != Status::done) return status;
    if (monotonic_ns() - since > patience.timeout_ns) return Status::timeout;
    handle->group->nap(1'000'000);
  }
  return Status::done;
}

// run(description, inputs, outputs) → status
napi_value run(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  Operation& operation = handle->current;
  read_operation(env, arguments[0], arguments[1], arguments[2], operation);
  operation.allocate = allocate_now;
  operation.allocate_context = handle;
  operation.result = nullptr;
  handle->env = env;
  handle->current_result = nullptr;
  const double* fields = reinterpret_cast<const double*>(typed_array(env, arguments[0]).data);
  handle->current_patience = patience_of(fields, handle->spins);
  Status status = Status::done;
  if (fields[passive] != 0) status = wait_for_another(handle, handle->current_patience);
  begin_trace(handle);
  if (status == Status::done) status = handle->group->run(operation, handle->current_patience);
  end_trace(handle);
  if (status != Status::done) keep_current(env, handle, status, array_of(env, {arguments[1], arguments[2]}));
  if (status == Status::done && handle->current_result) return result_pair(env, handle->current_result, operation);
  return from_int(env, static_cast<int>(status));
}

// resume() → status, after run() or runNow() returned `stalled`
napi_value resume(napi_env env, napi_callback_info info) {
  auto* handle = Arguments<0>(env, info).data_as<GroupHandle>();
  if (!handle->group) return stopped(env);
  handle->env = env;
  Status status = handle->group->resume(handle->current, handle->current_patience);
  end_trace(handle);
  release_current(env, handle, status);
  if (status == Status::done && handle->current_result) return result_pair(env, handle->current_result, handle->current);
  return from_int(env, static_cast<int>(status));
}

void finished(napi_env env, napi_value callback, void* context, void* data) {
  auto* handle = static_cast<GroupHandle*>(context);
  auto* batch = static_cast<AddonBatch*>(data);
  if (!env) return;
  handle->batches.erase(batch->id);
  if (handle->batches.empty()) napi_unref_threadsafe_function(env, handle->report);
  if (!batch->consumed) {
    if (batch->trace) tell_trace(handle, *batch->trace);
    napi_value arguments[3] = {from_int(env, batch->id), from_int(env, static_cast<int>(batch->status)),
                               results_of(env, *batch)};
    napi_value self = undefined(env);
    napi_call_function(env, self, callback, 3, arguments, nullptr);
  }
  discard(env, batch);
}

// True if all members have arrived, or arrive within that time.
bool arrive_soon(GroupHandle* handle, double within_us) {
  Group& group = *handle->group;
  bool arrived = group.everyone_arrived();
  for (int64_t until = arrived ? 0 : monotonic_ns() + static_cast<int64_t>(within_us * 1e3); !arrived;) {
    for (int i = 0; i < 20 && !arrived; i++) {
      if (handle->spins) relax(); else sched_yield();
      arrived = group.everyone_arrived();
    }
    if (!arrived && monotonic_ns() > until) break;
  }
  return arrived;
}

// Hands the batch to the group's thread; `first` and `second` stay alive until it is over.
napi_value enqueue(napi_env env, GroupHandle* handle, std::unique_ptr<AddonBatch> batch, napi_value first, napi_value second) {
  napi_create_reference(env, array_of(env, {first, second}), 1, &batch->keep);
  if (handle->batches.empty()) napi_ref_threadsafe_function(env, handle->report);
  handle->batches.emplace(batch->id, batch.get());
  handle->worker->submit(batch.release());
  return from_int(env, queued);
}

// Before anything is posted: afterwards the other members would count on it. False: there are too many threads.
bool has_worker(GroupHandle* handle) {
  if (handle->worker) return true;
  try {
    handle->worker = std::make_unique<Worker>(*handle->group, [handle](Batch* done) {
      napi_call_threadsafe_function(handle->report, done, napi_tsfn_nonblocking);
    });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

// submit(id, descriptions, inputs, outputs, tryForMicroseconds) → status, or -1 if the batch continues in the background.
// The three in the middle are arrays with one element per operation. tryForMicroseconds: how long to wait here for the
// other members first.
napi_value submit(napi_env env, napi_callback_info info) {
  const Arguments<5> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  if (!has_worker(handle)) return from_int(env, static_cast<int>(Status::no_thread));
  auto batch = std::make_unique<AddonBatch>();
  batch->id = to_int64(env, arguments[0]);
  uint32_t operations = 0;
  napi_get_array_length(env, arguments[1], &operations);
  batch->operations.resize(operations);
  for (uint32_t i = 0; i < operations; i++) {
    napi_value description, inputs, outputs;
    napi_get_element(env, arguments[1], i, &description);
    napi_get_element(env, arguments[2], i, &inputs);
    napi_get_element(env, arguments[3], i, &outputs);
    Operation& operation = batch->operations[i];
    read_operation(env, description, inputs, outputs, operation);
    operation.allocate = allocate_later;
    if (i == 0) {
      const double* fields = reinterpret_cast<const double*>(typed_array(env, description).data);
      batch->patience = patience_of(fields, handle->spins);
      batch->patience.stall_ns = 0;  // the event loop reports stalls
      batch->passive = fields[passive] != 0;
    }
  }
  if (handle->mailbox[is_traced] != 0) batch->trace = std::make_unique<Trace>();
  Group& group = *handle->group;
  const double try_for_us = to_double(env, arguments[4]);
  if (try_for_us > 0 && handle->batches.empty() && operations == 1 && !batch->passive) {
    group.set_trace(batch->trace.get());
    group.begin(batch->operations[0]);
    batch->posted = true;
    if (arrive_soon(handle, try_for_us)) {
      Status status = group.resume(batch->operations[0], batch->patience);
      group.set_trace(nullptr);
      if (batch->trace) tell_trace(handle, *batch->trace);
      if (status == Status::done && batch->operations[0].result) return adopt_result(env, batch->operations[0]);
      return from_int(env, static_cast<int>(status));
    }
  }
  batch->patience = in_background(batch->patience);
  return enqueue(env, handle, std::move(batch), arguments[2], arguments[3]);
}

// runSoon(input, output, id, tryForMicroseconds) → as runNow(), or -1 if it continues in the background
napi_value run_soon(napi_env env, napi_callback_info info) {
  const Arguments<4> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  if (!has_worker(handle)) return from_int(env, static_cast<int>(Status::no_thread));
  Operation& operation = read_quick(env, handle, arguments[0], arguments[1]);
  Patience patience = handle->defaults;
  patience.stall_ns = 0;  // the event loop reports stalls
  const double try_for_us = to_double(env, arguments[3]);
  if (try_for_us > 0) {
    begin_trace(handle);
    handle->group->begin(operation);
    if (arrive_soon(handle, try_for_us)) {
      Status status = handle->group->resume(operation, patience);
      end_trace(handle);
      stamp(handle);
      if (status == Status::done) return end_quick(env, handle, operation);
      return from_int(env, static_cast<int>(status));
    }
  }
  detach_quick(env, handle, arguments[1], allocate_later, operation);
  auto batch = std::make_unique<AddonBatch>();
  batch->id = to_int64(env, arguments[2]);
  batch->operations.push_back(operation);
  batch->patience = in_background(patience);
  batch->posted = try_for_us > 0;
  if (handle->mailbox[is_traced] != 0) {
    if (try_for_us <= 0) handle->trace.count = 0;
    batch->trace = std::make_unique<Trace>(handle->trace);
  }
  return enqueue(env, handle, std::move(batch), arguments[0], arguments[1]);
}

// waitSync(id, stallAfterMs) → `stalled`, or [status, results] once the batch is over; the callback will not be called
napi_value wait_sync(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  auto found = handle->batches.find(to_int64(env, arguments[0]));
  if (found == handle->batches.end()) return undefined(env);
  AddonBatch* batch = found->second;
  Status status = handle->worker->wait(batch, static_cast<int64_t>(to_double(env, arguments[1]) * 1e6));
  if (status == Status::stalled) return from_int(env, static_cast<int>(status));
  batch->consumed = true;
  if (batch->trace) tell_trace(handle, *batch->trace);
  return array_of(env, {from_int(env, static_cast<int>(status)), results_of(env, *batch)});
}

// settle(timeoutMs): after a failure of the job, until the group's thread works on no batch
napi_value settle(napi_env env, napi_callback_info info) {
  const Arguments<1> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  if (handle->worker) handle->worker->settle(static_cast<int64_t>(to_double(env, arguments[0]) * 1e6));
  return undefined(env);
}

// takeBack() → ids of the batches taken back
napi_value take_back(napi_env env, napi_callback_info info) {
  auto* handle = Arguments<0>(env, info).data_as<GroupHandle>();
  napi_value list;
  napi_create_array(env, &list);
  if (!handle->worker) return list;
  uint32_t n = 0;
  for (Batch* taken : handle->worker->take_back()) {
    auto* batch = static_cast<AddonBatch*>(taken);
    napi_set_element(env, list, n++, from_int(env, batch->id));
    handle->batches.erase(batch->id);
    discard(env, batch);
  }
  if (n > 0 && handle->batches.empty()) napi_unref_threadsafe_function(env, handle->report);
  return list;
}

napi_value missing(napi_env env, napi_callback_info info) {
  auto* handle = Arguments<0>(env, info).data_as<GroupHandle>();
  napi_value list;
  napi_create_array(env, &list);
  if (!handle->group) return list;
  uint32_t n = 0;
  for (int member : handle->group->missing()) napi_set_element(env, list, n++, from_int(env, member));
  return list;
}

// setSwitchBytes(bytes): see Group::set_switch_bytes()
napi_value set_switch_bytes(napi_env env, napi_callback_info info) {
  const Arguments<1> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  if (!handle->group) return nullptr;
  constexpr double max_bytes = 0x1p40;  // also replaces NaN
  handle->group->set_switch_bytes(static_cast<size_t>(std::max(0.0, std::min(max_bytes, to_double(env, arguments[0])))));
  return nullptr;
}

napi_value culprit(napi_env env, napi_callback_info info) {
  const auto& group = Arguments<0>(env, info).data_as<GroupHandle>()->group;
  return from_int(env, group ? group->culprit() : -1);
}

napi_value errno_value(napi_env env, napi_callback_info info) {
  const auto& group = Arguments<0>(env, info).data_as<GroupHandle>()->group;
  return from_int(env, group ? group->errno_value() : 0);
}

// probe(allowed) → whether this member can copy from the others' memory
napi_value probe(napi_env env, napi_callback_info info) {
  const Arguments<1> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  napi_value result;
  napi_get_boolean(env, handle->group && handle->group->probe_peer_memory(to_int(env, arguments[0]) != 0), &result);
  return result;
}

// calibrate(id, wanted, timeoutMs) → -1: it runs on the group's thread and is reported under this id
napi_value calibrate(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  if (!handle->group) return stopped(env);
  if (!has_worker(handle)) return from_int(env, static_cast<int>(Status::no_thread));
  Patience patience = handle->defaults;
  patience.stall_ns = 0;
  patience.may_move = false;
  patience.timeout_ns = static_cast<int64_t>(to_double(env, arguments[2]) * 1e6);
  auto batch = std::make_unique<AddonBatch>();
  batch->id = to_int64(env, arguments[0]);
  batch->posted = true;
  batch->task = [wanted = to_int(env, arguments[1]) != 0, patience](Group& group) { return group.calibrate(wanted, patience); };
  return enqueue(env, handle, std::move(batch), undefined(env), undefined(env));
}

struct PreparedHandle {
  GroupHandle* handle;
  Operation operation;
  napi_ref arrays;
};

napi_value run_prepared(napi_env env, napi_callback_info info) {
  auto* prepared = Arguments<0>(env, info).data_as<PreparedHandle>();
  GroupHandle* handle = prepared->handle;
  if (!handle->group) return stopped(env);
  begin_trace(handle);
  Status status = handle->group->run(prepared->operation, handle->defaults);
  end_trace(handle);
  stamp(handle);
  if (status != Status::done) {
    napi_value arrays;
    napi_get_reference_value(env, prepared->arrays, &arrays);
    keep_current(env, handle, status, arrays);
    handle->current = prepared->operation;
    handle->current_patience = handle->defaults;
    handle->current_result = nullptr;
  }
  return from_int(env, static_cast<int>(status));
}

// prepareRun(description, inputs, outputs) → function () → status. It keeps the arrays alive; the caller makes sure that they
// are attached.
napi_value prepare_run(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  auto* handle = arguments.data_as<GroupHandle>();
  napi_value function;
  auto* prepared = new PreparedHandle{handle, {}, nullptr};
  read_operation(env, arguments[0], arguments[1], arguments[2], prepared->operation);
  napi_create_reference(env, array_of(env, {arguments[1], arguments[2]}), 1, &prepared->arrays);
  napi_create_function(env, "runPrepared", NAPI_AUTO_LENGTH, run_prepared, prepared, &function);
  auto release = [](napi_env finalizing, void* data, void*) {
    auto* unused = static_cast<PreparedHandle*>(data);
    napi_delete_reference(finalizing, unused->arrays);
    delete unused;
  };
  napi_add_finalizer(env, function, prepared, release, nullptr, nullptr);
  return function;
}

// The handle itself stays: functions and late reports still point to it. Returns what Group::withdraw() does.
int close_handle(GroupHandle* handle) {
  handle->worker.reset();
  const int writer = handle->group ? handle->group->withdraw(handle->hands_off_ns) : -1;
  if (handle->report) napi_release_threadsafe_function(handle->report, napi_tsfn_abort);
  handle->report = nullptr;
  handle->group.reset();
  return writer;
}

void close_group(void* data) { close_handle(static_cast<GroupHandle*>(data)); }

// close() → the rank that may still write into this member's memory, -1 if there is none
napi_value close(napi_env env, napi_callback_info info) {
  auto* handle = Arguments<0>(env, info).data_as<GroupHandle>();
  if (!handle->group) return from_int(env, -1);
  napi_remove_env_cleanup_hook(env, close_group, handle);
  const int writer = close_handle(handle);
  // Late reports of these arrive without an environment and touch nothing.
  for (const auto& [id, batch] : handle->batches) discard(env, batch);
  handle->batches.clear();
  return from_int(env, writer);
}

}  // namespace

napi_value group_object(const Options& options, std::unique_ptr<Group> group) {
  napi_env env = options.env;
  auto handle = std::make_unique<GroupHandle>();
  handle->group = std::move(group);
  handle->spins = options.integer("spins");
  handle->defaults = {handle->spins, yield_ns(handle->spins), static_cast<int64_t>(options.number("timeoutMs") * 1e6),
                      static_cast<int64_t>(options.number("stallAfterMs") * 1e6), true};
  handle->hands_off_ns = static_cast<int64_t>(options.number("handsOffMs") * 1e6);
  handle->mailbox = reinterpret_cast<double*>(typed_array(env, options.get("mailbox")).data);
  napi_value name;
  napi_create_string_utf8(env, "horovod", NAPI_AUTO_LENGTH, &name);
  napi_create_threadsafe_function(env, options.get("report"), nullptr, name, 0, 1, nullptr, nullptr, handle.get(), finished,
                                  &handle->report);
  napi_unref_threadsafe_function(env, handle->report);

  GroupHandle* raw = handle.release();
  napi_add_env_cleanup_hook(env, close_group, raw);
  napi_value object;
  napi_create_object(env, &object);
  set_function(env, object, "runNow", run_now, raw);
  set_function(env, object, "runSoon", run_soon, raw);
  set_function(env, object, "run", run, raw);
  set_function(env, object, "resume", resume, raw);
  set_function(env, object, "submit", submit, raw);
  set_function(env, object, "waitSync", wait_sync, raw);
  set_function(env, object, "settle", settle, raw);
  set_function(env, object, "takeBack", take_back, raw);
  set_function(env, object, "missing", missing, raw);
  set_function(env, object, "setSwitchBytes", set_switch_bytes, raw);
  set_function(env, object, "culprit", culprit, raw);
  set_function(env, object, "errno", errno_value, raw);
  set_function(env, object, "probe", probe, raw);
  set_function(env, object, "calibrate", calibrate, raw);
  set_function(env, object, "prepareRun", prepare_run, raw);
  set_function(env, object, "close", close, raw);
  return object;
}

}  // namespace hvd::node
