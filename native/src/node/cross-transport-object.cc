#include "cross-transport-object.h"

#include <atomic>
#include <cerrno>
#include <exception>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "../cross/cross-transport-offer.h"
#include "group-object.h"

namespace hvd::node {

namespace {

// Behind a NativeCancellation.
struct CancellationHandle {
  std::shared_ptr<std::atomic<bool>> is_cancelled = std::make_shared<std::atomic<bool>>(false);
};

struct OfferHandle {
  std::shared_ptr<Control> control;  // the offer uses it
  std::shared_ptr<CrossTransportOffer> offer;
};

napi_value from_text(napi_env env, const std::string& text) {
  napi_value value;
  napi_create_string_utf8(env, text.data(), text.size(), &value);
  return value;
}

template <class Handle>
napi_value external_of(napi_env env, Handle* handle) {
  napi_value external;
  napi_create_external(env, handle, [](napi_env, void* data, void*) { delete static_cast<Handle*>(data); }, nullptr, &external);
  return external;
}

// Blocking work on a new thread; `settle` makes the promise's value on the JavaScript thread. libuv's thread pool is too
// small for this: several ranks of one process wait for each other here.
struct Task {
  std::function<void()> work;
  std::function<napi_value(napi_env)> settle;
  napi_deferred deferred = nullptr;
  napi_threadsafe_function report = nullptr;
};

void run_task(Task* task) {
  task->work();
  napi_threadsafe_function end = task->report;
  // Otherwise the environment is gone, and the function with it.
  if (napi_call_threadsafe_function(end, task, napi_tsfn_nonblocking) == napi_ok)
    napi_release_threadsafe_function(end, napi_tsfn_release);
  else
    delete task;
}

napi_value promise_of(napi_env env, std::function<void()> work, std::function<napi_value(napi_env)> settle) {
  auto task = std::make_unique<Task>(Task{std::move(work), std::move(settle)});
  napi_value promise;
  napi_create_promise(env, &task->deferred, &promise);
  auto report = [](napi_env env, napi_value, void*, void* data) {
    std::unique_ptr<Task> done(static_cast<Task*>(data));
    if (env) napi_resolve_deferred(env, done->deferred, done->settle(env));
  };
  napi_create_threadsafe_function(env, nullptr, nullptr, from_text(env, "horovod cross transport"), 0, 1, nullptr, nullptr,
                                  nullptr, report, &task->report);
  try {
    std::thread(run_task, task.get()).detach();
    task.release();
  } catch (const std::system_error& error) {
    napi_release_threadsafe_function(task->report, napi_tsfn_abort);
    napi_resolve_deferred(env, task->deferred, from_text(env, std::string("cannot start a thread: ") + error.what()));
  }
  return promise;
}

// Libraries throw, and so does std::thread; an exception would end the process.
void guarded(std::string& error, const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& exception) {
    error = exception.what();
  }
}

void cancel_handle(void* data) { static_cast<CancellationHandle*>(data)->is_cancelled->store(true, std::memory_order_release); }

// newCancellation() → cancellation. It is cancelled when the environment ends, at the latest.
napi_value new_cancellation(napi_env env, napi_callback_info) {
  auto* handle = new CancellationHandle;
  napi_add_env_cleanup_hook(env, cancel_handle, handle);
  auto release = [](napi_env env, void* data, void*) {
    napi_remove_env_cleanup_hook(env, cancel_handle, data);
    delete static_cast<CancellationHandle*>(data);
  };
  napi_value external;
  napi_create_external(env, handle, release, nullptr, &external);
  return external;
}

// cancel(cancellation)
napi_value cancel(napi_env env, napi_callback_info info) {
  cancel_handle(external_in<CancellationHandle>(env, Arguments<1>(env, info)[0]));
  return undefined(env);
}

// offerCrossTransport(options) → promise of [offer, text], or of a string: the reason of the failure
napi_value offer(napi_env env, napi_callback_info info) {
  const Options options{env, Arguments<1>(env, info)[0]};
  // Shared: the process may end, or close the control block, while the thread waits for other members.
  const std::shared_ptr<Control> control = options.external<ControlHandle>("control")->control;
  if (!control) return throw_system(env, std::system_error(ECANCELED, std::generic_category(), "the transport was closed"));
  const CrossTransportMember member{*control,
                                    options.integer("size"),
                                    options.integer("index"),
                                    options.text("address"),
                                    static_cast<int64_t>(options.number("timeoutMs") * 1e6),
                                    options.boolean("isSingleThreaded"),
                                    options.external<CancellationHandle>("cancellation")->is_cancelled};
  struct Result {
    std::shared_ptr<CrossTransportOffer> offer;
    std::string error;
  };
  auto result = std::make_shared<Result>();
  return promise_of(
      env,
      [control, member, result] {
        guarded(result->error, [&] { result->offer = offer_cross_transport(member, result->error); });
      },
      [control, result](napi_env env) {
        if (!result->offer) return from_text(env, result->error);
        return array_of(env, {external_of(env, new OfferHandle{control, result->offer}),
                              from_text(env, result->offer->text())});
      });
}

// openCrossTransport(offer, texts, timeoutMs) → promise of the transport, or of a string: the reason of the failure
napi_value open(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  uint32_t members = 0;
  napi_get_array_length(env, arguments[1], &members);
  std::vector<std::string> texts;
  for (uint32_t i = 0; i < members; i++) {
    napi_value text;
    napi_get_element(env, arguments[1], i, &text);
    texts.push_back(to_text(env, text));
  }
  struct Result {
    std::shared_ptr<CrossTransport> transport;
    std::string error;
  };
  auto result = std::make_shared<Result>();
  const auto timeout_ns = static_cast<int64_t>(to_double(env, arguments[2]) * 1e6);
  return promise_of(
      env,
      [made = *external_in<OfferHandle>(env, arguments[0]), texts, timeout_ns, result] {
        guarded(result->error, [&] { result->transport = made.offer->open(texts, timeout_ns, result->error); });
      },
      [result](napi_env env) {
        if (!result->transport) return from_text(env, result->error);
        return external_of(env, new CrossTransportHandle{result->transport});
      });
}

// closeCrossTransports(isHealthy)
napi_value close(napi_env env, napi_callback_info info) {
  bool is_healthy = false;
  napi_get_value_bool(env, Arguments<1>(env, info)[0], &is_healthy);
  close_cross_transports(is_healthy);
  return undefined(env);
}

}  // namespace

void add_cross_transport(napi_env env, napi_value exports) {
  set_function(env, exports, "newCancellation", new_cancellation, nullptr);
  set_function(env, exports, "cancel", cancel, nullptr);
  set_function(env, exports, "offerCrossTransport", offer, nullptr);
  set_function(env, exports, "openCrossTransport", open, nullptr);
  set_function(env, exports, "closeCrossTransports", close, nullptr);
}

}  // namespace hvd::node
