// What goes over the wire: the header of every frame and the hello in the connection request. docs/protocol-rdma.md
// is the normative description. All numbers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace verbmq {

enum class frame_type : uint8_t {
  data = 1,
  ready = 2,   // first frame of the connecting side; the accepting side sends nothing before it
  credit = 3,  // carries only credits
  ping = 4,
  pong = 5,
  close = 6,  // no data frame follows
  abort = 7,
  large = 8,  // a message that is to be read from the sender's memory; takes its turn, and a slot, as data does
  note = 9,   // about exposed memory
  answer = 10,   // to a note
  refusal = 11,  // an abort, because of an access to exposed memory that was not allowed
};

/// Sixteen bytes before every payload, so that payloads keep the alignment of their slot.
struct frame_header {
  static constexpr size_t bytes = 16;

  frame_type type;
  uint8_t control_credits;  // control slots given back
  uint16_t data_credits;    // data slots given back
  uint32_t length;          // payload bytes that follow
  uint32_t sequence;        // frames sent before this one on the connection, modulo 2^32
  uint16_t large_read;      // large messages that were read from the peer so far, modulo 2^16
  uint16_t large_released;  // of these, those that the application has let go of, modulo 2^16

  void write(uint8_t* at) const noexcept;
  /// Nothing when the type is unknown.
  static std::optional<frame_header> read(const uint8_t* at) noexcept;
};

/// The payload of a `large` frame: where the message lies, and the key to read it with.
struct advertisement {
  static constexpr size_t bytes = 16;

  uint64_t address;
  uint32_t rkey;
  uint32_t length;

  void write(uint8_t* at) const noexcept;
  static advertisement read(const uint8_t* at) noexcept;
};

/// What a pong may carry: of the data slots that were lent to this side, how many it gives back unused.
struct pong_payload {
  static constexpr size_t bytes = 2;

  uint16_t unused_data_credits;

  void write(uint8_t* at) const noexcept;
  static pong_payload read(const uint8_t* at) noexcept;
};

/// Why a connection request was refused; travels in the private data of the reject.
enum class reject_reason : uint16_t {
  none = 0,
  not_verbmq = 1,
  version = 2,
  refused = 3,
  no_resources = 4,
};

/// First words of each side, in the private data of rdma_cm: at most 56 bytes reach the peer with InfiniBand.
struct hello {
  static constexpr size_t bytes = 48;
  static constexpr size_t secret_bytes = 16;
  static constexpr uint16_t protocol_version = 1;

  uint32_t slot_bytes = 0;     // size of one receive slot, header included
  uint16_t data_slots = 0;     // receive slots for data frames
  uint16_t withheld_slots = 0; // of these, how many are not there yet: the peer gets their credits later, or never
  uint16_t control_slots = 0;  // receive slots for all others
  uint64_t max_message_bytes = 0;
  uint32_t window_bytes = 0;  // large messages that may be advertised and not released; 0 when none can be taken
  bool atomics = false;       // this side's device has them
  std::array<uint8_t, secret_bytes> secret{};  // with which this side signs its descriptors for this connection

  void write(uint8_t* at) const noexcept;
  /// Reads a hello that may be followed by padding. On failure says why in `reason`.
  static std::optional<hello> read(const uint8_t* at, size_t available, reject_reason& reason) noexcept;
};

/// Private data of a reject.
struct reject_message {
  static constexpr size_t bytes = 8;
  static void write(uint8_t* at, reject_reason reason) noexcept;
  /// `none` when the refusal came from something that is not verbmq.
  static reject_reason read(const uint8_t* at, size_t available) noexcept;
};

}  // namespace verbmq
