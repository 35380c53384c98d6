// Completions on their way: from the hardware through the stream of a work queue into a completion queue, and the
// event that tells of it.
#pragma once

#include "objects.h"

namespace simverbs {

/// Sends a completion down the stream of the queue pair's send or receive queue. The lock is held.
void complete(queue_pair* pair, completion what);

/// What a completion says of a send that is done.
ibv_wc success_entry(const queue_pair* pair, const send_work& work);

/// A completion whose only valid fields are those the specification promises for a failed one; the others hold
/// rubbish, so that code which reads them fails a test and not a user.
ibv_wc failed_entry(uint64_t wr_id, ibv_wc_status status, uint32_t queue_pair);

/// Puts what is on its way to the queue, and not held back, into it at once.
void hurry_completions(const completion_queue* queue);

/// Moves on what a release or a change of a setting has freed.
void pump_all_completions();
void pump_cq_events();
int64_t held_completions(bool sends);
int64_t held_cq_events();

/// Removes the completions of a queue pair that goes away (devices that do so).
void remove_completions(completion_queue* queue, uint32_t queue_pair);

}  // namespace simverbs
