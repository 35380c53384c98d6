#pragma once

#include <napi.h>

namespace verbmq {

/// `probe(options)` of the addon; src/binding.ts documents it.
Napi::Value probe(const Napi::CallbackInfo& info);

}  // namespace verbmq
