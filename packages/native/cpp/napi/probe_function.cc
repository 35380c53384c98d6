#include "napi/probe_function.h"

#include "engine/probe.h"
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

}  // namespace

Napi::Value probe(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!info[0].IsObject()) throw Napi::TypeError::New(env, "probe takes options");
  auto options = info[0].As<Napi::Object>();
  library_paths paths;
  paths.ibverbs = optional_string(options, "ibverbs").value_or(paths.ibverbs);
  paths.rdmacm = optional_string(options, "rdmacm").value_or(paths.rdmacm);
  const size_t memory_bytes = required_uint32(options, "memoryBytes");
  const auto reports = guarded(env, [&] { return probe_devices(paths, memory_bytes); });
  Napi::Array devices = Napi::Array::New(env);
  for (const device_report& report : reports) devices.Set(devices.Length(), to_javascript(env, report));
  return devices;
}

}  // namespace verbmq
