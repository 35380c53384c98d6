#include "napi/engine_object.h"

#include <unistd.h>

#include <utility>

#include "napi/values.h"

namespace verbmq {

namespace {

Napi::Int32Array required_int32_array(const Napi::Object& object, const char* field) {
  const Napi::Value value = object.Get(field);
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_int32_array) {
    throw Napi::TypeError::New(object.Env(), std::string(field) + " must be an Int32Array");
  }
  return value.As<Napi::Int32Array>();
}

connection_sizes sizes_from(const Napi::Object& options) {
  const connection_sizes sizes{required_uint32(options, "slotBytes"), required_uint32(options, "dataSlots"),
                               required_uint32(options, "sendSlots"),
                               static_cast<uint64_t>(required_number(options, "maxMessageBytes")),
                               required_uint32(options, "windowBytes"),
                               options.Get("sharesReceives").ToBoolean()};
  const bool sane = sizes.slot_bytes >= 64 && sizes.slot_bytes % 64 == 0 && sizes.slot_bytes <= (1u << 24) &&
                    sizes.data_slots >= 1 && sizes.data_slots <= 0x7fff && sizes.send_slots >= 4 &&
                    sizes.send_slots <= 0x7fff;
  if (!sane) throw Napi::RangeError::New(options.Env(), "slotBytes, dataSlots or sendSlots is out of range");
  return sizes;
}

/// The page-aligned part of the slab, and the gate; both arrays are referenced until the connection is gone.
connection_memory memory_from(const Napi::Object& options, const connection_sizes& sizes) {
  Napi::Env env = options.Env();
  const Napi::Value slab_value = options.Get("slab");
  if (!slab_value.IsArrayBuffer()) throw Napi::TypeError::New(env, "slab must be an ArrayBuffer");
  auto slab = slab_value.As<Napi::ArrayBuffer>();
  Napi::Int32Array gate = required_int32_array(options, "gate");
  const uint32_t offset = required_uint32(options, "slabOffset");
  if (offset + connection_memory::total_bytes(sizes) > slab.ByteLength() || gate.ElementLength() < gate_words) {
    throw Napi::RangeError::New(env, "slab or gate is too small");
  }

  struct references {
    Napi::Reference<Napi::ArrayBuffer> slab;
    Napi::Reference<Napi::Int32Array> gate;
  };
  auto owner = std::make_shared<references>();
  owner->slab = Napi::Persistent(slab);
  owner->gate = Napi::Persistent(gate);
  return {static_cast<uint8_t*>(slab.Data()) + offset, connection_memory::total_bytes(sizes), gate.Data(),
          std::move(owner)};
}

}  // namespace

Napi::Function engine_object::define(Napi::Env env) {
  return DefineClass(env, "Engine",
                     {InstanceMethod("listen", &engine_object::listen),
                      InstanceMethod("listenerAddress", &engine_object::listener_address),
                      InstanceMethod("closeListener", &engine_object::close_listener),
                      InstanceMethod("connect", &engine_object::connect),
                      InstanceMethod("accept", &engine_object::accept),
                      InstanceMethod("reject", &engine_object::reject),
                      InstanceMethod("sendClose", &engine_object::send_close),
                      InstanceMethod("finish", &engine_object::finish),
                      InstanceMethod("abort", &engine_object::abort),
                      InstanceMethod("destroy", &engine_object::destroy),
                      InstanceMethod("sendNote", &engine_object::send_note),
                      InstanceMethod("sendAnswer", &engine_object::send_answer),
                      InstanceMethod("takeNote", &engine_object::take_note),
                      InstanceMethod("takeAnswer", &engine_object::take_answer),
                      InstanceMethod("takeDescription", &engine_object::take_description),
                      InstanceMethod("takeFailure", &engine_object::take_failure),
                      InstanceMethod("takeDeviceNotices", &engine_object::take_device_notices),
                      InstanceMethod("registerMemory", &engine_object::register_memory),
                      InstanceMethod("deregisterMemory", &engine_object::deregister_memory),
                      InstanceMethod("memoryTotals", &engine_object::memory_totals),
                      InstanceMethod("pendingCalls", &engine_object::pending_calls),
                      InstanceMethod("joinReceivePool", &engine_object::join_receive_pool),
                      InstanceMethod("makeReceivePool", &engine_object::make_receive_pool),
                      InstanceMethod("sharedReceiveTotals", &engine_object::shared_receive_totals),
                      InstanceMethod("flush", &engine_object::flush),
                      InstanceMethod("close", &engine_object::close)});
}

engine_object::engine_object(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  Napi::Env env = info.Env();
  if (!info[0].IsObject() || !info[1].IsFunction()) {
    throw Napi::TypeError::New(env, "Engine takes options and a dispatch function");
  }
  auto options = info[0].As<Napi::Object>();
  Napi::Int32Array events = required_int32_array(options, "events");
  Napi::Int32Array submissions = required_int32_array(options, "submissions");
  Napi::Int32Array ring = required_int32_array(options, "ring");
  if (ring.ElementLength() < ring_words) throw Napi::RangeError::New(env, "ring is too small");
  const shared_arrays arrays{reinterpret_cast<event_record*>(events.Data()),
                             events.ElementLength() / event_record::words,
                             reinterpret_cast<event_record*>(submissions.Data()),
                             submissions.ElementLength() / event_record::words, ring.Data()};
  library_paths paths;
  paths.ibverbs = optional_string(options, "ibverbs").value_or(paths.ibverbs);
  paths.rdmacm = optional_string(options, "rdmacm").value_or(paths.rdmacm);
  const polling_policy policy(static_cast<polling_mode>(required_uint32(options, "polling")),
                              static_cast<uint64_t>(required_number(options, "spinMicros") * 1000));
  guarded(env, [&] {
    runtime_ = runtime::create(env, paths, policy, arrays, info[1].As<Napi::Function>(), options);
  });
  // Alive until close() or the end of the environment: the event loop knows the runtime.
  Ref();
}

engine_object::~engine_object() = default;

handle engine_object::handle_argument(const Napi::CallbackInfo& info) {
  return handle::from_value(info[0].As<Napi::Number>().Uint32Value());
}

engine& engine_object::open_engine(const Napi::CallbackInfo& info) {
  if (runtime_ == nullptr || !runtime_->open()) throw Napi::Error::New(info.Env(), "this engine is closed");
  return runtime_->get();
}

Napi::Value engine_object::listen(const Napi::CallbackInfo& info) {
  engine& target = open_engine(info);
  auto options = info[0].As<Napi::Object>();
  const handle made = guarded(info.Env(), [&] {
    const socket_address address(required_string(options, "host"),
                                 static_cast<uint16_t>(required_uint32(options, "port")));
    return target.listen(address, static_cast<int>(required_uint32(options, "backlog")));
  });
  runtime_->pump();
  return Napi::Number::New(info.Env(), made.value());
}

Napi::Value engine_object::listener_address(const Napi::CallbackInfo& info) {
  return to_javascript(info.Env(), open_engine(info).listener_address(handle_argument(info)));
}

void engine_object::close_listener(const Napi::CallbackInfo& info) {
  open_engine(info).close_listener(handle_argument(info));
  runtime_->pump();
}

Napi::Value engine_object::connect(const Napi::CallbackInfo& info) {
  engine& target = open_engine(info);
  auto options = info[0].As<Napi::Object>();
  const connection_sizes sizes = sizes_from(options);
  const handle made = guarded(info.Env(), [&] {
    const socket_address remote(required_string(options, "host"),
                                static_cast<uint16_t>(required_uint32(options, "port")));
    std::optional<socket_address> local;
    if (const auto host = optional_string(options, "localHost")) local.emplace(*host, static_cast<uint16_t>(0));
    return target.connect(remote, local, sizes, memory_from(options, sizes),
                          static_cast<int>(required_uint32(options, "timeoutMs")));
  });
  runtime_->pump();
  return Napi::Number::New(info.Env(), made.value());
}

void engine_object::accept(const Napi::CallbackInfo& info) {
  engine& target = open_engine(info);
  auto options = info[1].As<Napi::Object>();
  const connection_sizes sizes = sizes_from(options);
  guarded(info.Env(), [&] { target.accept(handle_argument(info), sizes, memory_from(options, sizes)); });
  runtime_->pump();
}

void engine_object::reject(const Napi::CallbackInfo& info) {
  open_engine(info).reject(handle_argument(info), static_cast<reject_reason>(info[1].As<Napi::Number>().Uint32Value()));
  runtime_->pump();
}

void engine_object::send_close(const Napi::CallbackInfo& info) {
  engine& target = open_engine(info);
  runtime_->pump();
  target.send_close(handle_argument(info));
  runtime_->pump();
}

void engine_object::finish(const Napi::CallbackInfo& info) {
  open_engine(info).finish(handle_argument(info));
  runtime_->pump();
}

void engine_object::abort(const Napi::CallbackInfo& info) {
  open_engine(info).abort(handle_argument(info), info[1].As<Napi::String>().Utf8Value(),
                          info[3].ToBoolean() ? frame_type::refusal : frame_type::abort,
                          info[2].As<Napi::Number>().Uint32Value());
  runtime_->pump();
}

void engine_object::destroy(const Napi::CallbackInfo& info) {
  open_engine(info).destroy(handle_argument(info));
  runtime_->pump();
}

Napi::Value engine_object::take_description(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const connection_description found =
      guarded(env, [&] { return open_engine(info).take_description(handle_argument(info)); });
  Napi::Object value = Napi::Object::New(env);
  value.Set("device", found.device);
  value.Set("iwarp", Napi::Boolean::New(env, found.iwarp));
  value.Set("atomics", Napi::Boolean::New(env, found.atomics));
  value.Set("forkHidesPages", Napi::Boolean::New(env, found.fork_hides_pages));
  value.Set("inlineBytes", Napi::Number::New(env, found.inline_bytes));
  value.Set("peerSlotBytes", Napi::Number::New(env, found.peer_slot_bytes));
  value.Set("peerMaxMessageBytes", Napi::Number::New(env, static_cast<double>(found.peer_max_message_bytes)));
  value.Set("peerWindowBytes", Napi::Number::New(env, found.peer_window_bytes));
  value.Set("readDepth", Napi::Number::New(env, found.read_depth));
  value.Set("secret", to_javascript(env, found.secret.data(), found.secret.size()));
  value.Set("peerSecret", to_javascript(env, found.peer_secret.data(), found.peer_secret.size()));
  value.Set("local", to_javascript(env, found.local));
  value.Set("remote", to_javascript(env, found.remote));
  return value;
}

Napi::Value engine_object::take_failure(const Napi::CallbackInfo& info) {
  const auto why = open_engine(info).take_failure(handle_argument(info));
  return why ? Napi::Value(to_javascript(info.Env(), *why)) : info.Env().Undefined();
}

Napi::Value engine_object::take_device_notices(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Napi::Array notices = Napi::Array::New(env);
  for (const device_notice& notice : open_engine(info).take_device_notices()) {
    Napi::Object value = Napi::Object::New(env);
    value.Set("device", notice.device);
    value.Set("event", notice.event);
    value.Set("port", Napi::Number::New(env, notice.port));
    notices.Set(notices.Length(), value);
  }
  return notices;
}

void engine_object::flush(const Napi::CallbackInfo&) {
  if (runtime_ != nullptr) runtime_->pump();
}

void engine_object::close(const Napi::CallbackInfo&) {
  if (runtime_ == nullptr) return;
  std::exchange(runtime_, nullptr)->end();
  Unref();
}

}  // namespace verbmq
