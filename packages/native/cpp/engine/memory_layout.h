// How the one slab of a connection is cut. JavaScript allocates it and computes the same offsets (src/slab.ts).
//
//   | receive slots (data + control) | send slots | control frames (one page) |
//
// Where the receive slots are shared with other connections (receive_pool.h) there are none here.
//
// The receive part is registered for local writes, the rest for no access at all but by this queue pair's sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace verbmq {

/// Sizes of one side of a connection, chosen by JavaScript and checked there.
struct connection_sizes {
  uint32_t slot_bytes;   // a multiple of 64
  uint32_t data_slots;   // receive slots for data frames
  uint32_t send_slots;   // data frames that may be posted and not complete
  uint64_t max_message_bytes;
  uint32_t window_bytes;  // for large messages
  bool shares_receives;   // the receive slots are those of a pool
};

/// Receive slots kept for control frames; see docs/protocol-rdma.md for why these are enough.
constexpr uint32_t control_receive_slots = 8;
/// Control frames that may be posted and not complete, each with a buffer of its own.
constexpr uint32_t control_send_slots = 16;
/// The abort, which waits for none of them.
constexpr uint32_t abort_send_slots = 1;
constexpr size_t control_frame_bytes = 64;
/// The text that an abort may carry, in a buffer behind the control frames.
constexpr size_t abort_text_bytes = 1024;
/// The most that a note or an answer says, each in a buffer behind that.
constexpr size_t note_text_bytes = 512;
constexpr size_t control_area_bytes = 4096;
static_assert(control_send_slots * control_frame_bytes + 16 + abort_text_bytes + 2 * (16 + note_text_bytes) <=
              control_area_bytes);

/// Words that the engine writes for JavaScript to read without a call. All count modulo 2^32.
enum gate_word : size_t {
  gate_completed = 0,      // data frames whose send has completed: their slots are free
  gate_limit = 1,          // data frames that the peer's credits allow in total
  gate_want_writable = 2,  // JavaScript sets it to 1 when it found a gate shut
  gate_large_read = 3,     // large messages that the peer has read: their memory is free
  gate_large_released = 4, // large messages that no longer count against the peer's window
  gate_words = 5
};

struct connection_memory {
  uint8_t* base;  // page-aligned
  size_t bytes;
  int32_t* gate;
  std::shared_ptr<void> owner;  // keeps both alive

  static size_t receive_slots(const connection_sizes& sizes) {
    return sizes.shares_receives ? 0 : sizes.data_slots + control_receive_slots;
  }
  static size_t receive_bytes(const connection_sizes& sizes) { return receive_slots(sizes) * sizes.slot_bytes; }
  static size_t send_bytes(const connection_sizes& sizes) {
    return static_cast<size_t>(sizes.send_slots) * sizes.slot_bytes + control_area_bytes;
  }
  static size_t total_bytes(const connection_sizes& sizes) { return receive_bytes(sizes) + send_bytes(sizes); }

  uint8_t* receive_slot(const connection_sizes& sizes, uint32_t slot) const {
    return base + static_cast<size_t>(slot) * sizes.slot_bytes;
  }
  uint8_t* send_slot(const connection_sizes& sizes, uint32_t slot) const {
    return base + receive_bytes(sizes) + static_cast<size_t>(slot) * sizes.slot_bytes;
  }
  uint8_t* control_frame(const connection_sizes& sizes, uint32_t index) const {
    return base + receive_bytes(sizes) + static_cast<size_t>(sizes.send_slots) * sizes.slot_bytes +
           index * control_frame_bytes;
  }
  uint8_t* abort_frame(const connection_sizes& sizes) const { return control_frame(sizes, control_send_slots); }
  uint8_t* note_frame(const connection_sizes& sizes) const { return abort_frame(sizes) + 16 + abort_text_bytes; }
  uint8_t* answer_frame(const connection_sizes& sizes) const { return note_frame(sizes) + 16 + note_text_bytes; }
};

}  // namespace verbmq
