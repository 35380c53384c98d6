#include "napi/probe_function.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/probe.h"
#include "napi/driver_threads.h"
#include "napi/values.h"

namespace verbmq {

namespace {

Napi::Object to_javascript(Napi::Env env, const device_report& report) {
  Napi::Array ports = Napi::Array::New(env);
  for (const port_report& port : report.ports) {
    Napi::Object value = Napi::Object::New(env);
    value.Set("number", Napi::Number::New(env, port.number));
    value.Set("state", port.state);
    value.Set("linkLayer", port.link_layer);
    value.Set("activeMtuBytes", Napi::Number::New(env, port.active_mtu_bytes));
    ports.Set(ports.Length(), value);
  }
  Napi::Object value = Napi::Object::New(env);
  value.Set("name", report.name);
  value.Set("transport", report.transport);
  value.Set("firmware", report.firmware);
  value.Set("ports", ports);
  const auto number = [&](const char* name, int amount) { value.Set(name, Napi::Number::New(env, amount)); };
  number("maxQueuePairs", report.max_queue_pairs);
  number("maxWorkRequests", report.max_work_requests);
  number("maxPieces", report.max_pieces);
  number("maxCompletionEntries", report.max_completion_entries);
  number("maxMemoryRegions", report.max_memory_regions);
  number("maxSharedReceiveQueues", report.max_shared_receive_queues);
  number("maxSharedReceives", report.max_shared_receives);
  number("maxReadsAsResponder", report.max_reads_as_responder);
  number("maxReadsAsInitiator", report.max_reads_as_initiator);
  value.Set("atomics", report.atomics);
  if (report.problem) value.Set("problem", verbmq::to_javascript(env, *report.problem));
  return value;
}

struct finding {
  std::vector<device_report> reports;
  std::optional<verbs_error> error;
};

finding find_any_thread(const library_paths& paths, size_t memory_bytes) {
  try {
    return {probe_devices(paths, memory_bytes), std::nullopt};
  } catch (const verbs_error& error) {
    return {{}, error};
  }
}

/// One probe, on a thread of its own. Lives by itself, until it has answered or its environment has ended; the thread then ends
/// behind that, and gives back what it has opened.
class probe_under_way final {
 public:
  static void start(Napi::Env env, const library_paths& paths, size_t memory_bytes, Napi::Function answered) {
    uv_loop_t* loop = nullptr;
    if (napi_get_uv_event_loop(env, &loop) != napi_ok) throw Napi::Error::New(env, "there is no event loop");
    auto* self = new probe_under_way(env, answered);
    self->thread_.open(loop);
    napi_add_async_cleanup_hook(
        env, [](napi_async_cleanup_hook_handle, void* ended) { static_cast<probe_under_way*>(ended)->close(); }, self,
        &self->cleanup_);
    auto found = std::make_shared<finding>();
    self->thread_.run([paths, memory_bytes, found] { *found = find_any_thread(paths, memory_bytes); },
                      [self, found] { self->answer(*found); }, [] {});
  }

 private:
  probe_under_way(Napi::Env env, Napi::Function answered) : env_(env), answered_(Napi::Persistent(answered)) {}

  void answer(const finding& found) {
    const Napi::HandleScope scope(env_);
    try {
      std::vector<napi_value> arguments;
      if (found.error) {
        arguments = {verbmq::to_javascript(env_, *found.error).Value(), env_.Undefined()};
      } else {
        Napi::Array devices = Napi::Array::New(env_);
        for (const device_report& report : found.reports) devices.Set(devices.Length(), to_javascript(env_, report));
        arguments = {env_.Undefined(), devices};
      }
      answered_.MakeCallback(env_.Global(), arguments);
    } catch (const Napi::Error&) {
      // src/probe.ts throws nothing: this is a worker that is ending, and runs no JavaScript any more.
    }
    close();
  }

  void close() {
    if (std::exchange(closing_, true)) return;
    thread_.close([this] {
      napi_async_cleanup_hook_handle hook = cleanup_;
      delete this;
      napi_remove_async_cleanup_hook(hook);  // last: the environment may wait for nothing else
    });
  }

  Napi::Env env_;
  Napi::FunctionReference answered_;
  driver_threads thread_{1};
  napi_async_cleanup_hook_handle cleanup_ = nullptr;
  bool closing_ = false;
};

}  // namespace

void probe(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!info[0].IsObject() || !info[1].IsFunction()) {
    throw Napi::TypeError::New(env, "probe takes options and a function that is answered");
  }
  auto options = info[0].As<Napi::Object>();
  library_paths paths;
  paths.ibverbs = optional_string(options, "ibverbs").value_or(paths.ibverbs);
  paths.rdmacm = optional_string(options, "rdmacm").value_or(paths.rdmacm);
  probe_under_way::start(env, paths, required_uint32(options, "memoryBytes"), info[1].As<Napi::Function>());
}

}  // namespace verbmq
