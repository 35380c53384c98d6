// The 64 bits that come back with every completion. In a failed completion nothing but these and the status is
// valid, so they say all there is to know: which connection, which kind of work, which slot or post.
#pragma once

#include <cstdint>

namespace verbmq {

/// Names a connection or listener of one engine. An index is used again, but with another generation, so that a
/// completion or a call that comes too late finds nothing.
class handle {
 public:
  static constexpr uint32_t max_index = 0xffff;
  static constexpr uint32_t max_generation = 0x7fff;

  handle() = default;
  handle(uint32_t index, uint32_t generation) : value_(index | (generation << 16)) {}
  static handle from_value(uint32_t value) {
    handle result;
    result.value_ = value;
    return result;
  }

  uint32_t value() const noexcept { return value_; }
  uint32_t index() const noexcept { return value_ & max_index; }
  uint32_t generation() const noexcept { return value_ >> 16; }

 private:
  uint32_t value_ = 0;
};

/// A handle as the opaque context of an rdma_cm identifier.
inline void* context_of(handle named) { return reinterpret_cast<void*>(static_cast<uintptr_t>(named.value())); }

/// Of a shared receive the `connection` is the number of its pool, and the queue pair of the completion tells whose it is.
enum class work_kind : uint8_t { receive = 1, send = 2, operation = 3, shared_receive = 4 };

struct work_id {
  static constexpr uint32_t number_mask = 0xffffff;

  handle connection;
  work_kind kind;
  uint32_t number;  // the slot of a receive, the running number of a send or of a piece of an operation (24 bits)

  uint64_t encode() const noexcept {
    return (static_cast<uint64_t>(connection.value()) << 32) | (static_cast<uint64_t>(kind) << 24) |
           (number & number_mask);
  }
  static work_id decode(uint64_t value) noexcept {
    return {handle::from_value(static_cast<uint32_t>(value >> 32)), static_cast<work_kind>((value >> 24) & 0xff),
            static_cast<uint32_t>(value) & number_mask};
  }
};

}  // namespace verbmq
