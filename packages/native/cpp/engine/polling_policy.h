// When to keep polling and when to sleep. Pure arithmetic on nanoseconds, so that it can be reasoned about alone.
#pragma once

#include <cstdint>

namespace verbmq {

enum class polling_mode : int { event = 0, adaptive = 1, busy = 2 };

/// Adaptive polling spends processor time to save the wake-up of an idle core. It is worth while only when the next
/// completion comes soon, so the time it spends follows what happens: it is halved each time nothing came, down to
/// nothing at all, and is full again as soon as a sleep turns out to have been shorter than a full spin.
class polling_policy {
 public:
  polling_policy(polling_mode mode, uint64_t spin_ns) : mode_(mode), spin_ns_(spin_ns), budget_ns_(spin_ns) {}

  polling_mode mode() const noexcept { return mode_; }
  /// How long to poll after the last completion before sleeping.
  uint64_t budget_ns() const noexcept {
    return mode_ == polling_mode::busy ? UINT64_MAX : mode_ == polling_mode::event ? 0 : budget_ns_;
  }
  void spun_in_vain() noexcept {
    budget_ns_ /= 2;
    if (budget_ns_ < spin_ns_ / 16) budget_ns_ = 0;
  }
  void woken_after(uint64_t slept_ns) noexcept {
    if (slept_ns <= spin_ns_) budget_ns_ = spin_ns_;
  }

 private:
  polling_mode mode_;
  uint64_t spin_ns_;
  uint64_t budget_ns_;
};

}  // namespace verbmq
