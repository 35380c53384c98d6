// Objects that all users of a device in this process share, because they share its file.
#pragma once

#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "verbs/device_context.h"

namespace verbmq {

/// The one `object` of this kind for the device of `context`, made when there is none. Worker threads have engines of
/// their own and share the contexts that librdmacm opened, so this is safe on any thread.
template <typename object>
std::shared_ptr<object> shared_by_context(const std::shared_ptr<device_context>& context) {
  // Never destroyed: threads may still end after the statics of the process have.
  static auto* mutex = new std::mutex();
  static auto* known = new std::map<ibv_context*, std::weak_ptr<object>>();

  const std::lock_guard<std::mutex> locked(*mutex);
  for (auto each = known->begin(); each != known->end();) {
    each = each->second.expired() ? known->erase(each) : std::next(each);
  }
  std::weak_ptr<object>& entry = (*known)[context->get()];
  std::shared_ptr<object> shared = entry.lock();
  if (!shared) {
    shared = std::make_shared<object>(context);
    entry = shared;
  }
  return shared;
}

}  // namespace verbmq
