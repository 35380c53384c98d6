// Reading and making JavaScript values; every wrong type is a TypeError that names the field.
#pragma once

#include <napi.h>

#include <optional>
#include <string>

#include "engine/engine.h"
#include "verbs/verbs_error.h"

namespace verbmq {

uint32_t required_uint32(const Napi::Object& object, const char* field);
double required_number(const Napi::Object& object, const char* field);
std::string required_string(const Napi::Object& object, const char* field);
std::optional<std::string> optional_string(const Napi::Object& object, const char* field);

/// An Error with `reason`, `call` and `errno`, which src/native-error.ts turns into a VerbmqError.
Napi::Error to_javascript(Napi::Env env, const verbs_error& error);

Napi::Object to_javascript(Napi::Env env, const failure& why);
/// A Uint8Array with a copy of the bytes.
Napi::Uint8Array to_javascript(Napi::Env env, const uint8_t* at, size_t bytes);
Napi::Object to_javascript(Napi::Env env, const host_and_port& address);

/// Runs `body`, turning verbs_error into a JavaScript exception.
template <typename function>
auto guarded(Napi::Env env, function body) {
  try {
    return body();
  } catch (const verbs_error& error) {
    throw to_javascript(env, error);
  }
}

}  // namespace verbmq
