// Connections between ids: requests, answers, ends.
#pragma once

#include <cstdint>
#include <vector>

#include "cm_objects.h"
#include "hardware.h"
#include "world.h"

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

/// Gives the id its device, which is opened when nobody has it open.
void take_device(cm_id* id);
/// Closes a device that was removed when no id needs it any more.
void close_unused_device(ibv_context* context);

/// A report of this kind about the id.
cm_report about(const cm_id* id, rdma_cm_event_type type, int status = 0);
/// Puts a report into the channel of its id, unless a fault holds, loses, changes or delays it.
void report(cm_report what);
/// Moves on what a release has freed.
void pump_reports();
int64_t held_reports();

/// The active side has read the answer: its queue pair may send now. A positive errno or 0.
int establish(cm_id* id);
/// The kernel's connection manager of iWARP ends an id that has asked when the answer is there, or is given up.
void await_answer(lock_guard& lock, uint32_t id);
/// Both directions are dead (iWARP, or hardware that found out): the id reports the disconnect, its queue pair is in
/// error.
void connection_lost(uint32_t queue_pair);
/// Reports the disconnect once.
void report_disconnected(cm_id* id, int status);
/// Moves the id's queue pair to the error state, if it has one.
void queue_pair_to_error(cm_id* id);

/// Tells the active side that its request is refused.
void reject_active(cm_id* active, int status, std::vector<uint8_t> private_data);

/// Reasons that a reject carries on InfiniBand.
namespace reject_reason {
constexpr int timed_out = 4;
constexpr int invalid_service_id = 8;
constexpr int consumer_defined = 28;
}  // namespace reject_reason

/// Does something with an id after a time, if it still exists then.
template <typename action>
void later(uint32_t handle, int64_t delay_us, action what) {
  after(delay_us, [handle, what] {
    if (cm_id* id = find_id(handle)) what(id);
  });
}

/// Does something with the id at the other end when a message has reached it.
template <typename action>
void to_peer(const cm_id* id, action what) {
  if (id->peer != 0) later(id->peer, the_world().set.cm_packet_us, what);
}

}  // namespace simverbs
