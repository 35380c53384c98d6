#include "engine/device_resources.h"

#include <algorithm>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

namespace {
// The first queue of a device serves a dozen connections of default size; the following ones double.
constexpr uint32_t first_queue_entries = 2048;
constexpr uint32_t largest_queue_entries = 65536;
}  // namespace

device_resources::device_resources(std::shared_ptr<device_context> context)
    : context_(std::move(context)),
      guard_(mapping_guard::of(context_)),
      attributes_(context_->attributes()),
      channel_(std::make_shared<completion_channel>(context_)),
      events_(context_) {}

device_resources::reservation::reservation(std::shared_ptr<device_resources> device, size_t shard, uint32_t depth)
    : device_(std::move(device)), shard_(shard), depth_(depth) {
  device_->shards_[shard_].used += depth_;
}

device_resources::reservation::~reservation() { device_->shards_[shard_].used -= depth_; }

std::unique_ptr<device_resources::reservation> device_resources::reserve(uint32_t depth) {
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].failed) continue;
    const auto entries = static_cast<uint32_t>(shards_[i].queue->entries());
    if (entries - std::min(entries, shards_[i].used) >= depth) {
      return std::make_unique<reservation>(shared_from_this(), i, depth);
    }
  }
  const auto device_limit = static_cast<uint32_t>(std::max(1, attributes_.max_cqe));
  if (depth > device_limit) {
    throw verbs_error("no-resources", "ibv_create_cq", 0,
                      "a connection needs " + std::to_string(depth) + " completion entries, the device has " +
                          std::to_string(device_limit) + "; configure fewer slots");
  }
  const uint32_t wish = std::min(first_queue_entries << std::min<size_t>(shards_.size(), 5), largest_queue_entries);
  const uint32_t entries = std::min(std::max(wish, depth), device_limit);
  shards_.push_back({std::make_shared<completion_queue>(channel_, static_cast<int>(entries)), 0});
  shards_.back().queue->arm();
  return std::make_unique<reservation>(shared_from_this(), shards_.size() - 1, depth);
}

size_t device_resources::poll(ibv_wc* completions, size_t limit) {
  size_t total = 0;
  // Starting where the last poll stopped keeps a busy queue from starving the others.
  for (size_t i = 0; i < shards_.size() && total < limit; ++i) {
    if (next_to_poll_ >= shards_.size()) next_to_poll_ = 0;
    shard& polled = shards_[next_to_poll_++];
    if (polled.failed) continue;
    try {
      total += static_cast<size_t>(polled.queue->poll(static_cast<int>(limit - total), completions + total));
    } catch (const verbs_error& why) {
      fail(polled, why);
    }
  }
  return total;
}

void device_resources::arm() {
  for (shard& each : shards_) {
    if (each.failed) continue;
    try {
      each.queue->arm();
    } catch (const verbs_error& why) {
      fail(each, why);
    }
  }
}

void device_resources::retire(object_name queue) noexcept {
  for (shard& each : shards_) each.failed = each.failed || each.queue->name() == queue;
}

void device_resources::fail(shard& failed, const verbs_error& why) {
  failed.failed = true;
  failed_queues_.push_back({failed.queue->name(), why});
}

void device_resources::consume_events() {
  while (const object_name name = read_completion_event(*channel_)) {
    for (shard& each : shards_) {
      if (each.queue->name() == name) each.queue->note_event();
    }
    // One event for each armed queue at most; a second read of a single queue would only find the channel empty.
    if (shards_.size() == 1) break;
  }
}

}  // namespace verbmq
