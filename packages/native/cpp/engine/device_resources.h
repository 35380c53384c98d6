// What the connections of one engine share on one device: the completion channel and the completion queues.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "verbs/completion_queue.h"
#include "verbs/device_events.h"
#include "verbs/mapping_guard.h"
#include "verbs/verbs_error.h"

namespace verbmq {

class device_resources : public std::enable_shared_from_this<device_resources> {
 public:
  explicit device_resources(std::shared_ptr<device_context> context);

  const device_context& context() const noexcept { return *context_; }
  const ibv_device_attr& attributes() const noexcept { return attributes_; }
  /// For what belongs to one connection: each has a protection domain of its own.
  const std::shared_ptr<device_context>& shared_context() const noexcept { return context_; }
  const completion_channel& channel() const noexcept { return *channel_; }

  /// Readable when take_events() may have something.
  int event_fd() const noexcept { return events_.fd(); }
  /// What the device has reported by itself since the last call.
  std::vector<device_event> take_events() { return events_.take(); }
  /// Keeps whoever watches the descriptors until these resources end; it is let go before they are closed.
  void hold(std::shared_ptr<void> watcher) { watchers_.push_back(std::move(watcher)); }

  void release_watchers() noexcept { watchers_.clear(); }

  /// A place for `depth` work requests on some completion queue, held until destroyed. A queue that overruns is
  /// lost, so the sum of the depths on it never exceeds its size; another queue is created when none has room.
  class reservation {
   public:
    reservation(std::shared_ptr<device_resources> device, size_t shard, uint32_t depth);
    ~reservation();
    reservation(const reservation&) = delete;
    reservation& operator=(const reservation&) = delete;
    const std::shared_ptr<completion_queue>& queue() const { return device_->shards_[shard_].queue; }

   private:
    std::shared_ptr<device_resources> device_;
    size_t shard_;
    uint32_t depth_;
  };
  std::unique_ptr<reservation> reserve(uint32_t depth);

  /// Polls every queue once, for up to `limit` completions in all; returns how many there were.
  size_t poll(ibv_wc* completions, size_t limit);
  /// Arms every queue.
  void arm();
  /// Takes no more connections onto a queue that has failed, and leaves it alone.
  void retire(object_name queue) noexcept;
  struct failed_queue {
    object_name queue;
    verbs_error why;
  };
  /// Queues that could not be polled or armed since the last call; they are retired already.
  std::vector<failed_queue> take_failed_queues() { return std::exchange(failed_queues_, {}); }
  /// Reads what the channel has to tell; the queues are polled anyway.
  void consume_events();

 private:
  struct shard {
    std::shared_ptr<completion_queue> queue;
    uint32_t used;
    bool failed = false;
  };
  void fail(shard& failed, const verbs_error& why);

  std::shared_ptr<device_context> context_;
  // Made before and destroyed after everything that is mapped.
  std::shared_ptr<mapping_guard> guard_;
  ibv_device_attr attributes_;
  std::shared_ptr<completion_channel> channel_;
  device_events events_;
  std::vector<shard> shards_;
  std::vector<failed_queue> failed_queues_;
  size_t next_to_poll_ = 0;
  std::vector<std::shared_ptr<void>> watchers_;  // the first to go
};

}  // namespace verbmq
