// A shared receive queue (SRQ): receives that any queue pair which was created with it may take.
#pragma once

#include <memory>

#include "verbs/object_name.h"
#include "verbs/protection_domain.h"

namespace verbmq {

class shared_receive_queue {
 public:
  /// Room for `depth` receives of one piece each. Throws verbs_error.
  shared_receive_queue(std::shared_ptr<protection_domain> domain, uint32_t depth);
  /// The queue pairs that use it must be gone.
  ~shared_receive_queue();
  shared_receive_queue(const shared_receive_queue&) = delete;
  shared_receive_queue& operator=(const shared_receive_queue&) = delete;

  ibv_srq* get() const noexcept { return queue_; }

  /// Posts a chain. Returns a positive errno or 0; on failure `refused` is the first that was not posted.
  int post(ibv_recv_wr* first, ibv_recv_wr*& refused) noexcept;
  /// Asks for one IBV_EVENT_SRQ_LIMIT_REACHED when fewer than `receives` are left. Without effect where the device
  /// cannot tell: it is only a warning.
  void warn_below(uint32_t receives) noexcept;
  /// Whether a device_event's subject is this queue.
  bool is(object_name subject) const noexcept { return subject == name_; }

 private:
  const object_name name_ = unused_name_any_thread();
  std::shared_ptr<protection_domain> domain_;
  ibv_srq* queue_;
};

}  // namespace verbmq
