// Messages that are longer than a slot, in both directions. The sender says where one lies (an advertisement, which takes
// its turn among the messages and a data slot of the peer); the receiver reads it from there into memory of its own.
//
// Two counts go back with every frame, both in the order of the advertisements: messages that were read, whose memory is
// the sender's again, and messages that the application has let go of, which opens the receiver's window again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/fifo.h"
#include "engine/region_table.h"

namespace verbmq {

/// What this side has advertised.
class large_outbox {
 public:
  /// The memory stays registered until the peer has read it.
  void waits(std::shared_ptr<const registered_memory> memory) { unread_.push_back(std::move(memory)); }
  void advertised() noexcept { ++advertised_; }
  /// Takes the counts of a frame; false when they speak of messages that were not advertised, or not read.
  bool heard(uint16_t read, uint16_t released);

  /// Both modulo 2^32.
  uint32_t read() const noexcept { return read_; }
  uint32_t released() const noexcept { return released_; }
  bool all_read() const noexcept { return unread_.empty(); }

 private:
  fifo<std::shared_ptr<const registered_memory>> unread_;
  uint32_t advertised_ = 0;
  uint32_t read_ = 0;
  uint32_t released_ = 0;
};

/// What the peer has advertised.
class large_inbox {
 public:
  large_inbox() = default;
  /// `window_bytes`: the most that may be advertised and not released, but for a single message that is longer.
  explicit large_inbox(uint64_t window_bytes) : window_bytes_(window_bytes) {}

  /// An advertisement of `bytes` bytes lies in `slot`; false when the window has no room for it.
  bool advertised(uint32_t slot, uint64_t bytes);
  /// The bytes of the message that is advertised in `slot`; nothing when none is, or it was read before.
  std::optional<uint64_t> to_read(uint32_t slot) const;
  /// They are read in the order of the advertisements.
  void was_read(uint32_t slot);
  /// The slot is released, and with it the message that it advertised, if it did.
  void released(uint32_t slot);
  bool all_read() const noexcept { return read_ == first_ + messages_.size(); }

  // For the header of a frame.
  bool has_news() const noexcept { return told_read_ != read_ || told_released_ != first_; }
  bool has_read_news() const noexcept { return told_read_ != read_; }
  struct counts {
    uint16_t read;
    uint16_t released;
  };
  counts tell() noexcept;

 private:
  struct message {
    uint64_t bytes;
    bool released;
  };

  uint64_t window_bytes_ = 0;
  using slot_numbers = std::unordered_map<uint32_t, uint64_t>;
  slot_numbers by_slot_;                           // numbers of messages
  std::vector<slot_numbers::node_type> spare_;     // of those that were released, to be used again
  fifo<message> messages_;         // those that are not released, or lie behind one that is not
  uint64_t first_ = 0;             // number of the first of them: so many are released
  uint64_t read_ = 0;
  uint64_t told_read_ = 0;
  uint64_t told_released_ = 0;
  uint64_t used_bytes_ = 0;    // of the window, as the peer knows it
  uint64_t untold_bytes_ = 0;  // released, and the peer does not know it yet
};

}  // namespace verbmq
