// The thread that plays the hardware and the kernel: everything that a real device does by itself happens on it.
#pragma once

#include <cstdint>
#include <functional>

namespace simverbs {

/// Microseconds of the clock that never jumps.
int64_t now_us();

/// Runs `action` on the hardware thread, with the lock held, no earlier than `delay_us` from now. Actions of the same
/// time run in the order in which they were asked for. The caller holds the lock. What an action works on it looks
/// up by number: the object may be gone by then.
void after(int64_t delay_us, std::function<void()> action);

}  // namespace simverbs
