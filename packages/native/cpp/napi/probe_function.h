#pragma once

#include <napi.h>

namespace verbmq {

/// `probe(options, answered)` of the addon; src/binding.ts documents it.
void probe(const Napi::CallbackInfo& info);

}  // namespace verbmq
