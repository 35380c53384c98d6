// Connections between ids: requests, answers, ends.
#pragma once

#include <cstdint>

#include "cm_objects.h"

namespace simverbs {

// The lock is held in all of these.

cm_id* find_id(uint32_t handle);
/// The id that drives this queue pair, or nullptr.
cm_id* id_of_queue_pair(uint32_t number);
bool is_iwarp(const cm_id* id);

/// Makes an id; it counts as live only when the application knows of it.
cm_id* make_id(cm_channel* channel, void* context, rdma_port_space space);
/// Tells the peer of an id that goes away, and frees it.
void end_id(cm_id* id);

/// Puts a report into the channel of its id, unless a fault holds, loses, changes or delays it.
void report(cm_report what);
/// Moves on what a release has freed.
void pump_reports();
int64_t held_reports();

/// The active side has read the answer: its queue pair may send now. A positive errno or 0.
int establish(cm_id* id);
/// Both directions are dead (iWARP, or hardware that found out): the id reports the disconnect, its queue pair is in
/// error.
void connection_lost(uint32_t queue_pair);
/// Reports the disconnect once.
void report_disconnected(cm_id* id, int status);
/// Moves the id's queue pair to the error state, if it has one.
void queue_pair_to_error(cm_id* id);

}  // namespace simverbs
