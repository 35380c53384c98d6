// What the engine tells JavaScript, and what JavaScript asks of it, as records of four 32-bit integers in shared
// arrays: a batch of any length costs one call. A submission that needs more takes several records in a row.
// src/binding.ts holds the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/work_id.h"

namespace verbmq {

enum class event_kind : int32_t {
  message = 1,       // a: receive slot, b: payload bytes; the slot is JavaScript's until released
  writable = 2,      // a gate that had been shut may be open again
  connected = 3,     // the connecting side is up
  incoming = 4,      // of a listener; a: handle of the request, answer with accept() or reject()
  accepted = 5,      // the accepting side is up
  peer_closing = 6,  // the peer sends no more messages; all of them have been reported
  pong = 7,          // a sign of life that was asked for
  closed = 8,        // nothing is left of a connection or listener; a: 1 when take_failure() says why, else 0
  refused = 9,       // of a listener; a: reject_reason that a request was answered with, a bad one or one too many
  operation_done = 10,  // a: token of a one-sided operation that is complete
  device_notice = 11,   // of no handle: take_device_notices() has something
  advertised = 12,      // a: receive slot that tells of a large message, b: its bytes; JavaScript fetches it
  fetched = 13,         // a: that slot, b: bytes; both are JavaScript's until the slot is released
  note = 14,            // the peer has said something about exposed memory: take_note(), then answer
  answer = 15,          // it has answered: take_answer()
  lost = 16             // a connection that was up has failed, take_failure() says why; `closed` follows when nothing is left of it
};

enum class submission_kind : int32_t {
  send = 1,     // a: send slot, b: payload bytes behind the slot's header
  release = 2,  // a: receive slot, b: number of its pool, or 0; of handle 0 when its connection has ended
  ping = 3,
  fence = 4,  // learn soon that everything submitted so far is complete
  // These are operation_submissions.
  read = 5,
  write = 6,
  fetch_add = 7,
  compare_and_swap = 8,
  fetch = 9,      // token: receive slot that tells of a large message; into `region` from `offset` on
  advertise = 10  // token: send slot for the telling; the message lies in `region` from `offset` on
};

struct event_record {
  static constexpr size_t words = 4;
  int32_t kind;
  int32_t handle;
  int32_t a;
  int32_t b;
};
static_assert(sizeof(event_record) == event_record::words * sizeof(int32_t), "records are read as four integers");

/// A one-sided operation or a large message, as it lies in the array of submissions.
struct operation_submission {
  static constexpr size_t records = 4;
  int32_t kind;
  int32_t handle;
  uint32_t token;
  uint32_t region;  // registered memory of this side
  uint32_t offset;  // in it, bytes
  uint32_t bytes;
  uint32_t rkey;
  uint32_t reserved;
  uint64_t remote_address;
  uint64_t operand;  // what is added, or what is expected
  uint64_t swap;
  uint64_t reserved_too;
};
static_assert(sizeof(operation_submission) == operation_submission::records * sizeof(event_record), "whole records");

/// Events waiting for delivery. They are copied out, so that events raised while JavaScript reads a batch never
/// overwrite it.
class event_queue {
 public:
  void push(event_kind kind, handle of, int32_t a = 0, int32_t b = 0) {
    events_.push_back({static_cast<int32_t>(kind), static_cast<int32_t>(of.value()), a, b});
  }
  bool empty() const noexcept { return events_.empty(); }
  /// Moves up to `capacity` records to `target`; returns how many.
  size_t take(event_record* target, size_t capacity) {
    const size_t count = events_.size() < capacity ? events_.size() : capacity;
    for (size_t i = 0; i < count; ++i) target[i] = events_[i];
    events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }

 private:
  std::vector<event_record> events_;
};

}  // namespace verbmq
