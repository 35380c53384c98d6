// What a verbs object is told to be called by, as its context: in events of its device, and of its completion channel.
//
// Events are passed on to everybody who has the device open, and may be read by some of them when the object is gone. So the name is no
// address, which a later object may have as well, and nobody can be tempted to look behind it.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbmq {

using object_name = const void*;

/// None that another object had before. On any thread.
inline object_name unused_name_any_thread() noexcept {
  static std::atomic<uintptr_t> last{0};
  return reinterpret_cast<object_name>(++last);
}

}  // namespace verbmq
