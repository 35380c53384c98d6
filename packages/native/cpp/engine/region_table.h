// The memory of one connection beside its slab: buffers of large messages, and what the application exposes.
//
// All of it is registered in the connection's own protection domain, so a key that a peer was given, or guesses, opens
// nothing that belongs to another connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "verbs/protection_domain.h"

namespace verbmq {

/// What registered memory is for, as a set of bits; src/binding.ts holds the same numbers. None of them is needed to
/// send from it, or to write from it into the peer's memory.
enum memory_use : uint32_t {
  use_remote_read = 1,    // the peer reads it
  use_remote_write = 2,   // the peer writes it
  use_remote_atomic = 4,  // the peer's atomic operations change it
  use_sink = 8            // what this side reads, and the results of its atomic operations, land in it
};

/// Registered memory, and a reference to whoever allocated it. It stays registered until the last operation that
/// uses it is complete, also when JavaScript has deregistered it before.
class registered_memory {
 public:
  registered_memory(std::shared_ptr<protection_domain> domain, uint8_t* base, size_t bytes, int access,
                    std::shared_ptr<void> owner)
      : base_(base), bytes_(bytes), owner_(std::move(owner)), region_(std::move(domain), base, bytes, access) {}

  uint8_t* base() const noexcept { return base_; }
  size_t bytes() const noexcept { return bytes_; }
  bool holds(uint64_t offset, uint64_t bytes) const noexcept { return offset <= bytes_ && bytes <= bytes_ - offset; }
  uint32_t lkey() const noexcept { return region_.lkey(); }
  uint32_t rkey() const noexcept { return region_.rkey(); }

 private:
  uint8_t* base_;
  size_t bytes_;
  std::shared_ptr<void> owner_;
  memory_region region_;  // deregistered before the memory is let go
};

/// Names registered memory of one connection. A number is not used again while the connection lives.
using region_number = uint32_t;

class region_table {
 public:
  /// A connection has at most so many, whatever the device would allow; they are few and large.
  static constexpr size_t most_regions = 4096;

  /// Registers memory for `uses` and no more. Throws verbs_error: "memlock", "no-resources".
  region_number add(const std::shared_ptr<protection_domain>& domain, bool iwarp, uint8_t* base, size_t bytes,
                    uint32_t uses, std::shared_ptr<void> owner);
  /// The peer's access ends at once, unless an operation of this side still uses the memory.
  void remove(region_number number);
  /// Nothing for a number that names nothing.
  std::shared_ptr<const registered_memory> find(region_number number) const;

  size_t count() const noexcept { return regions_.size(); }
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::unordered_map<region_number, std::shared_ptr<const registered_memory>> regions_;
  region_number last_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace verbmq
