// What the class `Engine` does about memory: registering it, and notes to the peer about it.
#include <utility>

#include "napi/engine_object.h"
#include "napi/values.h"

namespace verbmq {

namespace {

Napi::Value taken(Napi::Env env, const std::optional<note_bytes>& said) {
  return said ? Napi::Value(to_javascript(env, said->data(), said->size())) : env.Undefined();
}

}  // namespace

Napi::Value engine_object::register_memory(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  engine& target = open_engine(info);
  if (!info[1].IsArrayBuffer()) throw Napi::TypeError::New(env, "buffer must be an ArrayBuffer");
  auto buffer = info[1].As<Napi::ArrayBuffer>();
  const int64_t offset = info[2].As<Napi::Number>().Int64Value();
  const int64_t bytes = info[3].As<Napi::Number>().Int64Value();
  const auto size = static_cast<int64_t>(buffer.ByteLength());
  if (offset < 0 || bytes < 1 || offset > size || bytes > size - offset || bytes > UINT32_MAX) {
    throw Napi::RangeError::New(env, "the memory to register is not within its buffer");
  }
  auto owner = std::make_shared<Napi::Reference<Napi::ArrayBuffer>>(Napi::Persistent(buffer));
  const engine::registration made = guarded(env, [&] {
    return target.register_memory(handle_argument(info), static_cast<uint8_t*>(buffer.Data()) + offset,
                                  static_cast<size_t>(bytes), info[4].As<Napi::Number>().Uint32Value(),
                                  std::move(owner));
  });
  Napi::Object value = Napi::Object::New(env);
  value.Set("region", Napi::Number::New(env, made.region));
  value.Set("address", Napi::BigInt::New(env, made.address));
  value.Set("rkey", Napi::Number::New(env, made.rkey));
  return value;
}

void engine_object::deregister_memory(const Napi::CallbackInfo& info) {
  engine& target = open_engine(info);
  // What was submitted before may use the memory, and is looked up by its number.
  runtime_->pump();
  target.deregister_memory(handle_argument(info), info[1].As<Napi::Number>().Uint32Value());
}

Napi::Value engine_object::memory_totals(const Napi::CallbackInfo& info) {
  const engine::memory_totals totals = open_engine(info).registered_memory_totals();
  Napi::Object value = Napi::Object::New(info.Env());
  value.Set("bytes", Napi::Number::New(info.Env(), static_cast<double>(totals.bytes)));
  value.Set("regions", Napi::Number::New(info.Env(), static_cast<double>(totals.regions)));
  return value;
}

Napi::Value engine_object::join_receive_pool(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), open_engine(info).join_receive_pool(handle_argument(info)));
}

Napi::Value engine_object::pending_calls(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(open_engine(info).pending_calls()));
}

Napi::Value engine_object::make_receive_pool(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  engine& target = open_engine(info);
  auto options = info[1].As<Napi::Object>();
  const receive_pool_sizes sizes{required_uint32(options, "slotBytes"), required_uint32(options, "slots"),
                                 required_uint32(options, "maxConnections")};
  const Napi::Value slab_value = options.Get("slab");
  if (!slab_value.IsArrayBuffer()) throw Napi::TypeError::New(env, "slab must be an ArrayBuffer");
  auto slab = slab_value.As<Napi::ArrayBuffer>();
  const uint32_t offset = required_uint32(options, "slabOffset");
  const bool sane = sizes.slots <= work_id::number_mask && sizes.connections >= 1 &&
                    sizes.connections <= sizes.slots / receive_pool::slots_per_connection &&
                    offset + static_cast<uint64_t>(sizes.slots) * sizes.slot_bytes <= slab.ByteLength();
  if (!sane) throw Napi::RangeError::New(env, "the sizes of a receive pool are out of range");
  auto owner = std::make_shared<Napi::Reference<Napi::ArrayBuffer>>(Napi::Persistent(slab));
  const uint32_t number = guarded(env, [&] {
    return target.make_receive_pool(handle_argument(info), sizes, static_cast<uint8_t*>(slab.Data()) + offset,
                                    std::move(owner));
  });
  return Napi::Number::New(env, number);
}

Napi::Value engine_object::shared_receive_totals(const Napi::CallbackInfo& info) {
  const engine::receive_pool_totals totals = open_engine(info).shared_receive_totals();
  Napi::Object value = Napi::Object::New(info.Env());
  const auto number = [&](const char* name, uint32_t amount) { value.Set(name, Napi::Number::New(info.Env(), amount)); };
  number("slots", totals.slots);
  number("postedSlots", totals.posted_slots);
  number("lentSlots", totals.lent_slots);
  number("connections", totals.connections);
  number("lowWarnings", totals.ran_low);
  return value;
}

Napi::Value engine_object::send_note(const Napi::CallbackInfo& info) {
  return say(info, &engine::send_note);
}

Napi::Value engine_object::send_answer(const Napi::CallbackInfo& info) {
  return say(info, &engine::send_answer);
}

Napi::Value engine_object::say(const Napi::CallbackInfo& info, bool (engine::*send)(handle, note_bytes)) {
  auto text = info[1].As<Napi::Uint8Array>();
  if (text.ByteLength() > note_text_bytes) throw Napi::RangeError::New(info.Env(), "a note is too long");
  const bool said = (open_engine(info).*send)(handle_argument(info), {text.Data(), text.Data() + text.ByteLength()});
  runtime_->pump();
  return Napi::Boolean::New(info.Env(), said);
}

Napi::Value engine_object::take_note(const Napi::CallbackInfo& info) {
  return taken(info.Env(), open_engine(info).take_note(handle_argument(info)));
}

Napi::Value engine_object::take_answer(const Napi::CallbackInfo& info) {
  return taken(info.Env(), open_engine(info).take_answer(handle_argument(info)));
}

}  // namespace verbmq
