// Queue pairs: their states, and what the hardware does with the work that is posted on them.
#pragma once

#include "objects.h"

namespace simverbs {

// The lock is held in all of these.

queue_pair* make_queue_pair(ibv_pd* domain, ibv_qp_init_attr* init, int& error_number);
/// Frees it; `lock` is for the case that events were not acknowledged.
void destroy_queue_pair(std::unique_lock<std::mutex>& lock, queue_pair* pair);
/// As ibv_modify_qp; a positive errno or 0.
int modify_queue_pair(queue_pair* pair, const ibv_qp_attr* attributes, int mask);

/// Moves it to the error state, and flushes what is posted when the personality says so. Safe to repeat.
void enter_error(queue_pair* pair);
/// Makes the flush of work posted in the error state happen.
void schedule_flush(queue_pair* pair);
/// Tells the hardware that there may be something to send.
void kick(queue_pair* pair);
/// Whether the port lets packets through.
bool can_reach(const queue_pair* pair);
/// Finishes what is done at the head of the send queue, in order.
void retire_sends(queue_pair* pair);

}  // namespace simverbs
