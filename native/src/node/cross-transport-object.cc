#include "cross-transport-object.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../cross/cross-transport-offer.h"
#include "group-object.h"

namespace hvd::node {

namespace {

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

napi_value promise_of(napi_env env, std::function<void()> work, std::function<napi_value(napi_env)> settle) {
  auto* task = new Task{std::move(work), std::move(settle)};
  napi_value promise;
  napi_create_promise(env, &task->deferred, &promise);
  auto report = [](napi_env env, napi_value, void*, void* data) {
    std::unique_ptr<Task> done(static_cast<Task*>(data));
    if (env) napi_resolve_deferred(env, done->deferred, done->settle(env));
  };
  napi_create_threadsafe_function(env, nullptr, nullptr, from_text(env, "horovod cross transport"), 0, 1, nullptr, nullptr,
                                  nullptr, report, &task->report);
  std::thread([task] {
    task->work();
    napi_threadsafe_function end = task->report;
    napi_call_threadsafe_function(end, task, napi_tsfn_nonblocking);
    napi_release_threadsafe_function(end, napi_tsfn_release);
  }).detach();
  return promise;
}

// offerCrossTransport(options) → promise of [offer, text], or of a string: the reason of the failure
napi_value offer(napi_env env, napi_callback_info info) {
  const Options options{env, Arguments<1>(env, info)[0]};
  // Shared: the process may end, or close the control block, while the thread waits for other members.
  const std::shared_ptr<Control> control = options.external<ControlHandle>("control")->control;
  const CrossTransportMember member{*control,
                                    options.integer("size"),
                                    options.integer("index"),
                                    options.text("address"),
                                    static_cast<int64_t>(options.number("timeoutMs") * 1e6),
                                    options.boolean("isSingleThreaded")};
  struct Result {
    std::shared_ptr<CrossTransportOffer> offer;
    std::string error;
  };
  auto result = std::make_shared<Result>();
  return promise_of(
      env, [control, member, result] { result->offer = offer_cross_transport(member, result->error); },
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
        result->transport = made.offer->open(texts, timeout_ns, result->error);
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
  set_function(env, exports, "offerCrossTransport", offer, nullptr);
  set_function(env, exports, "openCrossTransport", open, nullptr);
  set_function(env, exports, "closeCrossTransports", close, nullptr);
}

}  // namespace hvd::node
