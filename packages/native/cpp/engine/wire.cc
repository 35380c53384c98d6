#include "engine/wire.h"

#include <cstring>

namespace verbmq {

namespace {

constexpr uint32_t hello_magic = 0x31514d56;   // "VMQ1"
constexpr uint32_t reject_magic = 0x52514d56;  // "VMQR"

constexpr uint32_t flag_atomics = 1;

template <typename number>
void put(uint8_t* at, number value) noexcept {
  for (size_t i = 0; i < sizeof value; ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
}

template <typename number>
number get(const uint8_t* at) noexcept {
  number value = 0;
  for (size_t i = 0; i < sizeof value; ++i) value |= static_cast<number>(static_cast<number>(at[i]) << (8 * i));
  return value;
}

}  // namespace

void frame_header::write(uint8_t* at) const noexcept {
  at[0] = static_cast<uint8_t>(type);
  at[1] = control_credits;
  put(at + 2, data_credits);
  put(at + 4, length);
  put(at + 8, sequence);
  put(at + 12, large_read);
  put(at + 14, large_released);
}

std::optional<frame_header> frame_header::read(const uint8_t* at) noexcept {
  if (at[0] < static_cast<uint8_t>(frame_type::data) || at[0] > static_cast<uint8_t>(frame_type::refusal)) {
    return std::nullopt;
  }
  return frame_header{static_cast<frame_type>(at[0]), at[1],
                      get<uint16_t>(at + 2),          get<uint32_t>(at + 4),
                      get<uint32_t>(at + 8),          get<uint16_t>(at + 12),
                      get<uint16_t>(at + 14)};
}

void advertisement::write(uint8_t* at) const noexcept {
  put(at, address);
  put(at + 8, rkey);
  put(at + 12, length);
}

advertisement advertisement::read(const uint8_t* at) noexcept {
  return {get<uint64_t>(at), get<uint32_t>(at + 8), get<uint32_t>(at + 12)};
}

void pong_payload::write(uint8_t* at) const noexcept { put(at, unused_data_credits); }

pong_payload pong_payload::read(const uint8_t* at) noexcept { return {get<uint16_t>(at)}; }

void hello::write(uint8_t* at) const noexcept {
  std::memset(at, 0, bytes);
  put(at, hello_magic);
  put(at + 4, protocol_version);
  put(at + 6, withheld_slots);
  put(at + 8, slot_bytes);
  put(at + 12, data_slots);
  put(at + 14, control_slots);
  put(at + 16, max_message_bytes);
  put(at + 24, window_bytes);
  put(at + 28, atomics ? flag_atomics : 0u);
  std::memcpy(at + 32, secret.data(), secret.size());
}

std::optional<hello> hello::read(const uint8_t* at, size_t available, reject_reason& reason) noexcept {
  reason = reject_reason::not_verbmq;
  if (available < bytes || get<uint32_t>(at) != hello_magic) return std::nullopt;
  reason = reject_reason::version;
  if (get<uint16_t>(at + 4) != protocol_version) return std::nullopt;
  hello peer;
  peer.withheld_slots = get<uint16_t>(at + 6);
  peer.slot_bytes = get<uint32_t>(at + 8);
  peer.data_slots = get<uint16_t>(at + 12);
  peer.control_slots = get<uint16_t>(at + 14);
  peer.max_message_bytes = get<uint64_t>(at + 16);
  peer.window_bytes = get<uint32_t>(at + 24);
  peer.atomics = (get<uint32_t>(at + 28) & flag_atomics) != 0;
  std::memcpy(peer.secret.data(), at + 32, peer.secret.size());
  // A peer that claims no room could never be sent anything.
  reason = reject_reason::not_verbmq;
  if (peer.slot_bytes <= frame_header::bytes || peer.data_slots <= peer.withheld_slots || peer.control_slots == 0) {
    return std::nullopt;
  }
  reason = reject_reason::none;
  return peer;
}

void reject_message::write(uint8_t* at, reject_reason reason) noexcept {
  put(at, reject_magic);
  put(at + 4, hello::protocol_version);
  put(at + 6, static_cast<uint16_t>(reason));
}

reject_reason reject_message::read(const uint8_t* at, size_t available) noexcept {
  if (available < bytes || get<uint32_t>(at) != reject_magic) return reject_reason::none;
  return static_cast<reject_reason>(get<uint16_t>(at + 6));
}

}  // namespace verbmq
