// A clock for short durations that costs next to nothing.
//
// Polling looks at the clock all the time. Where the kernel has no better clock source than the HPET, as in many virtual
// machines, one look is a system call that takes longer than all the rest of a poll; the processor's own counter does
// not. Its rate is measured against the system's clock once; until then the system's clock is asked.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace verbmq {

class duration_clock {
 public:
  /// `system_now` answers the system's monotonic time in nanoseconds.
  explicit duration_clock(uint64_t (*system_now)()) : system_now_(system_now) {
#if defined(__x86_64__)
    first_count_ = __rdtsc();
    first_ns_ = system_now_();
#endif
  }

  /// Nanoseconds, for differences of at most some seconds between two calls on this object.
  uint64_t now_ns() noexcept {
#if defined(__x86_64__)
    const uint64_t count = __rdtsc();
    // A counter that went back, on a machine whose cores disagree, stands still instead.
    const uint64_t passed = count > first_count_ ? count - first_count_ : 0;
    if (ns_per_count_ != 0) return first_ns_ + static_cast<uint64_t>(static_cast<double>(passed) * ns_per_count_);
    const uint64_t ns = system_now_();
    if (passed != 0 && ns - first_ns_ > calibration_ns) {
      ns_per_count_ = static_cast<double>(ns - first_ns_) / static_cast<double>(passed);
    }
    return ns;
#else
    return system_now_();
#endif
  }

 private:
  static constexpr uint64_t calibration_ns = 20'000'000;

  uint64_t (*system_now_)();
  uint64_t first_count_ = 0;
  uint64_t first_ns_ = 0;
  double ns_per_count_ = 0;
};

}  // namespace verbmq
