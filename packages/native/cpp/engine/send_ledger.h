// Which sends are posted and not yet known to be complete, in order. A queue pair completes sends in the order of
// posting, so the completion of one (only one in several is signalled) completes all before it. Of one-sided operations that
// is not true on every device, so they have numbers of their own; see operation_queue.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/work_id.h"

namespace verbmq {

enum class send_class : uint8_t { data, control, farewell };

class send_ledger {
 public:
  explicit send_ledger(uint32_t depth) : entries_(depth), depth_(depth) {}

  bool full() const noexcept { return count_ == depth_; }
  uint32_t outstanding() const noexcept { return count_; }

  /// Notes a send that is being posted; returns its running number for the work id.
  uint32_t push(send_class what) noexcept {
    entries_[wrapped(first_ + count_)] = what;
    ++count_;
    return (first_number_ + count_ - 1) & work_id::number_mask;
  }

  struct completed {
    uint32_t data = 0;
    uint32_t control = 0;
    uint32_t farewell = 0;   // among the control frames
  };

  /// Everything up to and with `number` is complete. A number that is not outstanding completes nothing.
  completed complete(uint32_t number) noexcept {
    completed result;
    const uint32_t distance = (number - first_number_) & work_id::number_mask;
    if (distance >= count_) return result;
    for (uint32_t i = 0; i <= distance; ++i) {
      switch (entries_[first_]) {
        case send_class::data: ++result.data; break;
        case send_class::control: ++result.control; break;
        case send_class::farewell:
          ++result.control;
          ++result.farewell;
          break;
      }
      first_ = wrapped(first_ + 1);
    }
    count_ -= distance + 1;
    first_number_ = (number + 1) & work_id::number_mask;
    return result;
  }

 private:
  /// For places that are at most once around the ring; a division would take longer than all the rest.
  uint32_t wrapped(uint32_t place) const noexcept { return place < depth_ ? place : place - depth_; }

  std::vector<send_class> entries_;
  uint32_t depth_;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint32_t first_number_ = 0;
};

}  // namespace verbmq
