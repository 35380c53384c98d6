// Completion channel (a file descriptor) and the completion queues that report on it.
#pragma once

#include <memory>

#include "verbs/device_context.h"
#include "verbs/object_name.h"

namespace verbmq {

class completion_channel {
 public:
  /// The descriptor is non-blocking and closed on exec.
  explicit completion_channel(std::shared_ptr<device_context> context);
  ~completion_channel();
  completion_channel(const completion_channel&) = delete;
  completion_channel& operator=(const completion_channel&) = delete;

  int fd() const noexcept { return channel_->fd; }
  ibv_comp_channel* get() const noexcept { return channel_; }
  const device_context& context() const noexcept { return *context_; }

 private:
  std::shared_ptr<device_context> context_;
  ibv_comp_channel* channel_;
};

class completion_queue {
 public:
  completion_queue(std::shared_ptr<completion_channel> channel, int entries);
  /// Acknowledges what was read from the channel; the queue pairs that use the queue must be gone.
  ~completion_queue();
  completion_queue(const completion_queue&) = delete;
  completion_queue& operator=(const completion_queue&) = delete;

  ibv_cq* get() const noexcept { return queue_; }
  object_name name() const noexcept { return name_; }
  int entries() const noexcept { return queue_->cqe; }

  /// Takes up to `count` completions; throws verbs_error when the queue itself has failed.
  int poll(int count, ibv_wc* completions);
  /// Asks for one event at the next completion. Poll again after this: what came before it gives no event.
  void arm();
  /// Counts one event read from the channel; they are acknowledged in groups, since that takes a lock.
  void note_event() noexcept;

 private:
  void acknowledge() noexcept;

  std::shared_ptr<completion_channel> channel_;
  const object_name name_ = unused_name_any_thread();
  ibv_cq* queue_;
  unsigned unacknowledged_ = 0;
};

/// Reads one event without blocking; nullptr when there is none. Call note_event() on the queue that has this name.
object_name read_completion_event(const completion_channel& channel);

}  // namespace verbmq
