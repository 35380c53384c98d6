// A clock for short durations that costs next to nothing.
//
// Polling looks at the clock all the time. Where the kernel has no better clock source than the HPET, as in many virtual
// machines, one look is a system call that takes longer than all the rest of a poll; the processor's own counter does
// not. Its rate is measured against the system's clock; until then the system's clock is asked.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace verbmq {

/// Time by a counter of unknown rate.
class counted_time {
 public:
  /// `count` is what the counter says now, `system_now` answers the system's monotonic time in nanoseconds.
  counted_time(uint64_t count, uint64_t (*system_now)()) : system_now_(system_now) { start(count); }

  /// Nanoseconds when the counter says `count`.
  uint64_t at(uint64_t count) noexcept {
    // The counter has started anew, as it may when the machine has slept, or cores of this machine disagree. Time that stood still until
    // it has caught up would let a loop that waits for a time poll for ever.
    if (count < first_count_) start(count);
    const uint64_t passed = count - first_count_;
    if (ns_per_count_ != 0) return first_ns_ + static_cast<uint64_t>(static_cast<double>(passed) * ns_per_count_);
    const uint64_t ns = system_now_();
    if (passed != 0 && ns - first_ns_ > calibration_ns) {
      ns_per_count_ = static_cast<double>(ns - first_ns_) / static_cast<double>(passed);
    }
    return ns;
  }

 private:
  static constexpr uint64_t calibration_ns = 20'000'000;

  void start(uint64_t count) noexcept {
    first_count_ = count;
    first_ns_ = system_now_();
    ns_per_count_ = 0;
  }

  uint64_t (*system_now_)();
  uint64_t first_count_ = 0;
  uint64_t first_ns_ = 0;
  double ns_per_count_ = 0;
};

class duration_clock {
 public:
  /// `system_now` answers the system's monotonic time in nanoseconds.
  explicit duration_clock(uint64_t (*system_now)())
#if defined(__x86_64__)
      : time_(__rdtsc(), system_now) {
  }
#else
      : system_now_(system_now) {
  }
#endif

  /// Nanoseconds, for differences of at most some seconds between two calls on this object. May jump, also back, when the machine has
  /// slept.
  uint64_t now_ns() noexcept {
#if defined(__x86_64__)
    return time_.at(__rdtsc());
#else
    return system_now_();
#endif
  }

 private:
#if defined(__x86_64__)
  counted_time time_;
#else
  uint64_t (*system_now_)();
#endif
};

}  // namespace verbmq
