#include "engine/large_messages.h"

#include <utility>

namespace verbmq {

bool large_outbox::heard(uint16_t read, uint16_t released) {
  // Nothing new, as most frames have it.
  if (read == static_cast<uint16_t>(read_) && released == static_cast<uint16_t>(released_)) return true;
  const auto newly_read = static_cast<uint16_t>(read - static_cast<uint16_t>(read_));
  if (newly_read > advertised_ - read_) return false;
  read_ += newly_read;
  for (uint16_t n = 0; n < newly_read; ++n) unread_.pop_front();
  const auto newly_released = static_cast<uint16_t>(released - static_cast<uint16_t>(released_));
  if (newly_released > read_ - released_) return false;
  released_ += newly_released;
  return true;
}

bool large_inbox::advertised(uint32_t slot, uint64_t bytes) {
  if (used_bytes_ > 0 && used_bytes_ + bytes > window_bytes_) return false;
  used_bytes_ += bytes;
  const uint64_t number = first_ + messages_.size();
  if (spare_.empty()) {
    by_slot_.emplace(slot, number);
  } else {
    slot_numbers::node_type node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = slot;
    node.mapped() = number;
    by_slot_.insert(std::move(node));
  }
  messages_.push_back({bytes, false});
  return true;
}

std::optional<uint64_t> large_inbox::to_read(uint32_t slot) const {
  const auto found = by_slot_.find(slot);
  if (found == by_slot_.end() || found->second < read_) return std::nullopt;
  return messages_[found->second - first_].bytes;
}

void large_inbox::was_read(uint32_t slot) {
  const auto found = by_slot_.find(slot);
  if (found != by_slot_.end()) read_ = found->second + 1;
}

void large_inbox::released(uint32_t slot) {
  const auto found = by_slot_.find(slot);
  if (found == by_slot_.end()) return;
  const uint64_t number = found->second;
  spare_.push_back(by_slot_.extract(found));
  messages_[number - first_].released = true;
  for (; !messages_.empty() && messages_.front().released; messages_.pop_front(), ++first_) {
    untold_bytes_ += messages_.front().bytes;
  }
}

large_inbox::counts large_inbox::tell() noexcept {
  told_read_ = read_;
  told_released_ = first_;
  used_bytes_ -= untold_bytes_;
  untold_bytes_ = 0;
  return {static_cast<uint16_t>(read_), static_cast<uint16_t>(first_)};
}

}  // namespace verbmq
