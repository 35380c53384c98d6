// Asks the kernel to serve large memory with huge pages: there are fewer to fault in and to pin.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbmq {

/// To be called before the memory is touched, which registering it does. Only whole huge pages within it are asked for, so that it
/// takes no more memory than before and shares none of them with anything else. Advice: where the kernel has no such
/// pages, or none at this moment, nothing changes.
void prefer_huge_pages(uint8_t* base, size_t bytes) noexcept;

}  // namespace verbmq
