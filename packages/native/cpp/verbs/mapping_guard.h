// Keeps Soft-iWARP from giving a queue the one place in its address space that its own library takes for a failure.
#pragma once

#include <memory>

#include "verbs/device_context.h"

namespace verbmq {

/// Every queue of siw is mapped from the device file at a key, which is the offset behind all that is mapped already.
/// Its library takes the key 0x90000 (SIW_INVAL_UOBJ_KEY in rdma-core's providers/siw) for "cannot be mapped" and gives
/// up the queue that gets it, though the kernel (6.1) hands it out like any other: which queue is hit depends on the
/// sizes of those before, and each further attempt is given the same key. So the first thing that is created on
/// such a device is a completion queue that nobody uses and that covers that offset. All engines of the
/// process share it, as they share the device file.
class mapping_guard {
 public:
  /// The guard of the device, or nothing where the device needs none. Throws verbs_error.
  static std::shared_ptr<mapping_guard> of(const std::shared_ptr<device_context>& context);

  explicit mapping_guard(std::shared_ptr<device_context> context);
  ~mapping_guard();
  mapping_guard(const mapping_guard&) = delete;
  mapping_guard& operator=(const mapping_guard&) = delete;

 private:
  std::shared_ptr<device_context> context_;
  ibv_cq* queue_;
};

}  // namespace verbmq
