#include "transport-object.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../cross/transport-offer.h"
#include "group-object.h"

namespace hvd::node {

namespace {

struct OfferHandle {
  std::shared_ptr<Control> control;  // the offer looks at it
  std::shared_ptr<TransportOffer> offer;
};

std::string text_of(napi_env env, napi_value value) {
  size_t bytes = 0;
  napi_get_value_string_utf8(env, value, nullptr, 0, &bytes);
  std::string text(bytes, '\0');
  napi_get_value_string_utf8(env, value, text.data(), bytes + 1, nullptr);
  return text;
}

napi_value text_value(napi_env env, const std::string& text) {
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

// Something that blocks, on a thread of its own; `settle` makes the promise's value on the JavaScript thread. Not one of
// libuv's few threads: several ranks of one process wait for each other here.
struct Task {
  std::function<void()> work;
  std::function<napi_value(napi_env)> settle;
  napi_deferred deferred = nullptr;
  napi_threadsafe_function report = nullptr;
};

napi_value promise_of(napi_env env, std::function<void()> work, std::function<napi_value(napi_env)> settle) {
  auto* task = new Task{std::move(work), std::move(settle)};
  napi_value promise, name;
  napi_create_promise(env, &task->deferred, &promise);
  napi_create_string_utf8(env, "horovod transport", NAPI_AUTO_LENGTH, &name);
  auto report = [](napi_env env, napi_value, void*, void* data) {
    std::unique_ptr<Task> done(static_cast<Task*>(data));
    if (env) napi_resolve_deferred(env, done->deferred, done->settle(env));
  };
  napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr, nullptr, report, &task->report);
  std::thread([task] {
    task->work();
    napi_threadsafe_function end = task->report;
    napi_call_threadsafe_function(end, task, napi_tsfn_nonblocking);
    napi_release_threadsafe_function(end, napi_tsfn_release);
  }).detach();
  return promise;
}

// offerTransport(control, size, index, address, timeoutMs, isSingleThreaded) → promise of [offer, text], or a string: why not
napi_value offer(napi_env env, napi_callback_info info) {
  size_t count = 6;
  napi_value arguments[6];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  void* handle;
  napi_get_value_external(env, arguments[0], &handle);
  // The process may end, or close the transport, while the thread waits for others.
  const std::shared_ptr<Control> control = static_cast<ControlHandle*>(handle)->control;
  bool is_single_threaded = false;
  napi_get_value_bool(env, arguments[5], &is_single_threaded);
  const TransportMember member{*control,
                            to_int(env, arguments[1]),
                            to_int(env, arguments[2]),
                            text_of(env, arguments[3]),
                            static_cast<int64_t>(to_double(env, arguments[4]) * 1e6),
                            is_single_threaded};
  struct Result {
    std::shared_ptr<TransportOffer> offer;
    std::string error;
  };
  auto result = std::make_shared<Result>();
  return promise_of(
      env, [control, member, result] { result->offer = offer_transport(member, result->error); },
      [control, result](napi_env env) {
        if (!result->offer) return text_value(env, result->error);
        napi_value pair;
        napi_create_array_with_length(env, 2, &pair);
        napi_set_element(env, pair, 0, external_of(env, new OfferHandle{control, result->offer}));
        napi_set_element(env, pair, 1, text_value(env, result->offer->text()));
        return pair;
      });
}

// openTransport(offer, texts, timeoutMs) → promise of the transport, or of a string: why not
napi_value open(napi_env env, napi_callback_info info) {
  size_t count = 3;
  napi_value arguments[3];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  void* handle;
  napi_get_value_external(env, arguments[0], &handle);
  uint32_t members = 0;
  napi_get_array_length(env, arguments[1], &members);
  std::vector<std::string> texts;
  for (uint32_t i = 0; i < members; i++) {
    napi_value text;
    napi_get_element(env, arguments[1], i, &text);
    texts.push_back(text_of(env, text));
  }
  struct Result {
    std::shared_ptr<Transport> transport;
    std::string error;
  };
  auto result = std::make_shared<Result>();
  const auto timeout_ns = static_cast<int64_t>(to_double(env, arguments[2]) * 1e6);
  return promise_of(
      env,
      [made = *static_cast<OfferHandle*>(handle), texts, timeout_ns, result] {
        result->transport = made.offer->open(texts, timeout_ns, result->error);
      },
      [result](napi_env env) {
        if (!result->transport) return text_value(env, result->error);
        return external_of(env, new TransportHandle{result->transport});
      });
}

// closeTransports(isHealthy)
napi_value close(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value arguments[1];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  bool is_healthy = false;
  napi_get_value_bool(env, arguments[0], &is_healthy);
  close_transports(is_healthy);
  return undefined(env);
}

}  // namespace

void add_transport(napi_env env, napi_value exports) {
  set_function(env, exports, "offerTransport", offer, nullptr);
  set_function(env, exports, "openTransport", open, nullptr);
  set_function(env, exports, "closeTransports", close, nullptr);
  napi_set_named_property(env, exports, "transportName", text_value(env, transport_name()));
  napi_set_named_property(env, exports, "transportLibrary", text_value(env, transport_library()));
}

}  // namespace hvd::node
