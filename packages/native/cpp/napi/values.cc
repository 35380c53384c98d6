#include "napi/values.h"

#include <algorithm>

namespace verbmq {

namespace {

Napi::Value required(const Napi::Object& object, const char* field, bool (Napi::Value::*is)() const,
                     const char* type) {
  const Napi::Value value = object.Get(field);
  if (!(value.*is)()) throw Napi::TypeError::New(object.Env(), std::string(field) + " must be a " + type);
  return value;
}

}  // namespace

uint32_t required_uint32(const Napi::Object& object, const char* field) {
  return required(object, field, &Napi::Value::IsNumber, "number").As<Napi::Number>().Uint32Value();
}

double required_number(const Napi::Object& object, const char* field) {
  return required(object, field, &Napi::Value::IsNumber, "number").As<Napi::Number>().DoubleValue();
}

std::string required_string(const Napi::Object& object, const char* field) {
  return required(object, field, &Napi::Value::IsString, "string").As<Napi::String>().Utf8Value();
}

std::optional<std::string> optional_string(const Napi::Object& object, const char* field) {
  if (object.Get(field).IsUndefined()) return std::nullopt;
  return required_string(object, field);
}

Napi::Error to_javascript(Napi::Env env, const verbs_error& error) {
  Napi::Error value = Napi::Error::New(env, error.what());
  value.Set("reason", Napi::String::New(env, error.reason()));
  value.Set("call", Napi::String::New(env, error.call()));
  value.Set("errno", Napi::Number::New(env, error.error_number()));
  return value;
}

Napi::Object to_javascript(Napi::Env env, const failure& why) {
  Napi::Object value = Napi::Object::New(env);
  value.Set("reason", why.reason);
  value.Set("message", why.message);
  return value;
}

Napi::Uint8Array to_javascript(Napi::Env env, const uint8_t* at, size_t bytes) {
  Napi::Uint8Array value = Napi::Uint8Array::New(env, bytes);
  std::copy(at, at + bytes, value.Data());
  return value;
}

Napi::Object to_javascript(Napi::Env env, const host_and_port& address) {
  Napi::Object value = Napi::Object::New(env);
  value.Set("host", address.host);
  value.Set("port", Napi::Number::New(env, address.port));
  return value;
}

}  // namespace verbmq
