// Credits: how many receive slots the peer still has posted for us, and how many of ours the peer does not know of.
//
// Data and control frames have their own slots and their own counts, so that a paused application (which holds data
// slots) never stops a ping, a credit or a close. The sum of both is what is posted; receiver-not-ready cannot happen.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbmq {

class credits {
 public:
  credits() = default;
  credits(uint32_t own_data_slots, uint32_t own_control_slots)
      : own_data_slots_(own_data_slots), own_control_slots_(own_control_slots) {}

  /// What the peer announced in its hello.
  void set_peer(uint32_t data_slots, uint32_t control_slots, uint32_t withheld_slots) noexcept {
    peer_data_slots_ = data_slots;
    peer_control_slots_ = control_slots;
    data_ = initial_data_ = data_slots - withheld_slots;
    control_ = control_slots;
  }

  // Gates for sending.
  bool may_send_data() const noexcept { return data_ > 0; }
  /// The last slot is kept for a frame that gives slots back: if both sides spent theirs on frames that cross and give none
  /// back, neither could give any back any more.
  bool may_send_control() const noexcept { return control_ > 1 || (control_ == 1 && unreturned_control_ > 0); }
  /// Nothing follows an abort.
  bool may_send_abort() const noexcept { return control_ > 0; }
  uint32_t data_available() const noexcept { return data_; }
  void sent_data() noexcept { --data_; }
  void sent_control() noexcept { --control_; }

  /// Takes what a frame of the peer gives back; false when it gives back more than was ever used.
  bool granted(uint32_t data, uint32_t control) noexcept {
    if (data > peer_data_slots_ - data_ || control > peer_control_slots_ - control_) return false;
    data_ += data;
    control_ += control;
    return true;
  }

  /// Counts a frame of the peer against the slots it knew of; false when it had none left.
  bool received(bool is_data) noexcept {
    uint32_t& used = is_data ? used_data_ : used_control_;
    if (used >= (is_data ? own_data_slots_ : own_control_slots_)) return false;
    ++used;
    return true;
  }

  // Of slots that are shared with other connections, the peer has credits for some only.
  void withhold(uint32_t data) noexcept { used_data_ += data; }
  /// How many data slots the peer has credits for or messages in, where that is not all.
  void lends(uint32_t quota) noexcept { lent_data_ = quota; }
  /// Credits that this side does not need, and gives back: all beyond what it had from the start. They are gone with it.
  uint32_t return_unused() noexcept {
    const uint32_t unused = data_ > initial_data_ ? data_ - initial_data_ : 0;
    data_ -= unused;
    return unused;
  }
  /// Data credits that the peer has, as far as this side can know.
  uint32_t peer_has() const noexcept { return own_data_slots_ - used_data_; }
  /// The peer gives back so many; false when it has not so many.
  bool returned(uint32_t data) noexcept {
    if (data > own_data_slots_ - used_data_) return false;
    used_data_ += data;
    return true;
  }

  // Slots posted again, not yet told to the peer.
  void reposted(uint32_t data, uint32_t control) noexcept {
    unreturned_data_ += data;
    unreturned_control_ += control;
  }
  /// True when half of either kind of slots waits to be returned: the peer may be about to run dry. A frame that
  /// only grants takes one control slot and answers half of them, so such frames cannot call each other for ever.
  bool grant_is_due() const noexcept {
    return unreturned_data_ >= std::max(1u, std::min(own_data_slots_, lent_data_) / 2) ||
           unreturned_control_ >= std::max(1u, own_control_slots_ / 2);
  }
  uint16_t take_data() noexcept {
    const uint32_t taken = std::min<uint32_t>(unreturned_data_, UINT16_MAX);
    unreturned_data_ -= taken;
    used_data_ -= taken;
    return static_cast<uint16_t>(taken);
  }
  uint8_t take_control() noexcept {
    const uint32_t taken = std::min<uint32_t>(unreturned_control_, UINT8_MAX);
    unreturned_control_ -= taken;
    used_control_ -= taken;
    return static_cast<uint8_t>(taken);
  }

 private:
  uint32_t own_data_slots_ = 0;
  uint32_t own_control_slots_ = 0;
  uint32_t peer_data_slots_ = 0;
  uint32_t peer_control_slots_ = 0;
  uint32_t lent_data_ = UINT32_MAX;
  uint32_t initial_data_ = 0;
  uint32_t data_ = 0;
  uint32_t control_ = 0;
  uint32_t used_data_ = 0;
  uint32_t used_control_ = 0;
  uint32_t unreturned_data_ = 0;
  uint32_t unreturned_control_ = 0;
};

}  // namespace verbmq
