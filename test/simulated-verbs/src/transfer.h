// What crosses the wire: the parts of sending and receiving that both kinds of transport share.
#pragma once

#include <cstdint>
#include <vector>

#include "objects.h"

namespace simverbs {

/// The queue pair at the other end, when it listens: connected to this one and ready to receive. Else nullptr.
queue_pair* receiver_of(const queue_pair* pair);

/// The wait that a receiver-not-ready answer asks for, from the code in `min_rnr_timer`.
int64_t rnr_wait_us(uint8_t code);

/// Copies between memory and pieces; the caller has checked access and length.
void gather(const send_work& work, std::vector<uint8_t>& bytes);
void scatter(const std::vector<ibv_sge>& pieces, const uint8_t* bytes, size_t count);
uint64_t total_bytes(const std::vector<ibv_sge>& pieces);

/// Hands a message to a posted receive. `good` when it was taken; else `request_status` is what the sender learns,
/// and the receiver has got its failed completion and is in error.
enum class delivery { good, not_ready, failed };
delivery deliver(queue_pair* receiver, const send_work& work, const std::vector<uint8_t>& bytes,
                 ibv_wc_status& request_status);

/// The receiver's side of a forbidden access: an asynchronous event and the error state.
void responder_fault(queue_pair* responder, ibv_event_type event);

}  // namespace simverbs
