// The event channel: what the kernel reports, and what the library makes of it when the application reads it.
#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "cm_address.h"
#include "cm_connection.h"
#include "hardware.h"
#include "world.h"

using namespace simverbs;

namespace simverbs {

namespace {

struct waiting_report {
  cm_report what;
  int64_t due_us;
};
std::deque<waiting_report> waiting_reports;

void process(cm_event* event, const cm_report& what, cm_id* id) {
  switch (what.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      take_device(id);
      break;
    case RDMA_CM_EVENT_CONNECT_REQUEST: {
      cm_id* requested = find_id(what.requested);
      requested->counted = true;
      ++the_world().live["cm-id"];
      requested->context = id->context;
      take_device(requested);
      event->listen_id = id;
      event->id = requested;
      ++id->requests_left;
      break;
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (id->qp == nullptr) break;  // the application does it, and then calls rdma_establish
      if (const int error_number = establish(id)) {
        event->event = RDMA_CM_EVENT_CONNECT_ERROR;
        event->status = error_number;
        queue_pair_to_error(id);
      } else {
        event->event = RDMA_CM_EVENT_ESTABLISHED;
      }
      break;
    case RDMA_CM_EVENT_REJECTED:
      queue_pair_to_error(id);
      break;
    default:
      break;
  }
}

/// The kernel ends what could not be destroyed with the file that it belongs to.
void end_given_up_ids(lock_guard& lock, const cm_channel* channel) {
  if (channel->ids == 0) return;
  std::vector<uint32_t> given_up;
  for (const auto& [handle, id] : the_world().cm_ids) {
    if (id->channel == channel && id->given_up) given_up.push_back(handle);
  }
  for (const uint32_t handle : given_up) {
    await_answer(lock, handle);
    cm_id* id = find_id(handle);
    ibv_context* context = id->verbs;
    end_id(id);
    close_unused_device(context);
  }
}

}  // namespace

void report(cm_report what) {
  world& w = the_world();
  if (w.faults.take_dropped_cm_event(what.type)) return;
  if (const auto other = w.faults.take_replacement(what.type)) {
    what.type = static_cast<rdma_cm_event_type>(other->type);
    what.status = other->status;
    // A search that was in vain can be made again.
    cm_id* id = what.type == RDMA_CM_EVENT_ADDR_ERROR ? find_id(what.id) : nullptr;
    if (id != nullptr && id->state == cm_state::address_resolved) id->state = cm_state::bound;
  }
  waiting_reports.push_back({std::move(what), now_us() + w.set.cm_event_delay_us});
  pump_reports();
}

void pump_reports() {
  world& w = the_world();
  static bool pumping = false;
  while (!waiting_reports.empty()) {
    if (w.faults.is_held(hold_point::cm_events, 0)) return;
    const int64_t wait_us = waiting_reports.front().due_us - now_us();
    if (wait_us > 0) {
      if (pumping) return;
      pumping = true;
      after(wait_us, [] {
        pumping = false;
        pump_reports();
      });
      return;
    }
    cm_report what = std::move(waiting_reports.front().what);
    waiting_reports.pop_front();
    cm_id* id = find_id(what.id);
    if (id == nullptr) continue;
    ++w.counts["cm-events"];
    static_cast<cm_channel*>(id->channel)->reports.push(std::move(what));
  }
}

int64_t held_reports() { return static_cast<int64_t>(waiting_reports.size()); }

}  // namespace simverbs

extern "C" {

rdma_event_channel* rdma_create_event_channel(void) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  int error_number = call_fails("rdma_create_event_channel");
  if (error_number == 0 && main_device()->removed && !w.set.decoy_devices) error_number = ENODEV;
  auto* channel = error_number == 0 ? new cm_channel() : nullptr;
  if (channel != nullptr && channel->reports.fd() < 0) {
    delete channel;
    channel = nullptr;
    error_number = EMFILE;
  }
  if (channel == nullptr) {
    errno = error_number;
    return nullptr;
  }
  channel->fd = channel->reports.fd();
  ++w.live["cm-channel"];
  return channel;
}

void rdma_destroy_event_channel(rdma_event_channel* plain) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  auto* channel = static_cast<cm_channel*>(plain);
  end_given_up_ids(lock, channel);
  if (channel->ids != 0) misuse(lock, "rdma_destroy_event_channel while ids of it live");
  --w.live["cm-channel"];
  delete channel;
}

int rdma_get_cm_event(rdma_event_channel* plain, rdma_cm_event** result) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("rdma_get_cm_event")) {
    errno = error_number;
    return -1;
  }
  for (;;) {
    lock.unlock();
    const auto what = static_cast<cm_channel*>(plain)->reports.read_one(lock);
    if (!what) return -1;
    cm_id* id = find_id(what->id);
    if (id == nullptr) continue;
    auto* event = new cm_event();
    event->id = id;
    event->event = what->type;
    event->status = what->status;
    event->counts_for = id;
    event->private_bytes = what->private_data;
    rdma_conn_param& parameters = event->param.conn;
    parameters.private_data_len = static_cast<uint8_t>(event->private_bytes.size());
    parameters.private_data = event->private_bytes.empty() ? nullptr : event->private_bytes.data();
    parameters.responder_resources = what->responder_resources;
    parameters.initiator_depth = what->initiator_depth;
    parameters.rnr_retry_count = what->rnr_retry_count;
    parameters.qp_num = what->qp_num;
    ++id->events_read;
    process(event, *what, id);
    *result = event;
    return 0;
  }
}

int rdma_ack_cm_event(rdma_cm_event* plain) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("rdma_ack_cm_event")) {
    errno = error_number;
    return -1;
  }
  auto* event = static_cast<cm_event*>(plain);
  ++event->counts_for->events_acknowledged;
  delete event;
  return 0;
}

const char* rdma_event_str(rdma_cm_event_type type) {
  switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: return "RDMA_CM_EVENT_ADDR_RESOLVED";
    case RDMA_CM_EVENT_ADDR_ERROR: return "RDMA_CM_EVENT_ADDR_ERROR";
    case RDMA_CM_EVENT_ROUTE_RESOLVED: return "RDMA_CM_EVENT_ROUTE_RESOLVED";
    case RDMA_CM_EVENT_ROUTE_ERROR: return "RDMA_CM_EVENT_ROUTE_ERROR";
    case RDMA_CM_EVENT_CONNECT_REQUEST: return "RDMA_CM_EVENT_CONNECT_REQUEST";
    case RDMA_CM_EVENT_CONNECT_RESPONSE: return "RDMA_CM_EVENT_CONNECT_RESPONSE";
    case RDMA_CM_EVENT_CONNECT_ERROR: return "RDMA_CM_EVENT_CONNECT_ERROR";
    case RDMA_CM_EVENT_UNREACHABLE: return "RDMA_CM_EVENT_UNREACHABLE";
    case RDMA_CM_EVENT_REJECTED: return "RDMA_CM_EVENT_REJECTED";
    case RDMA_CM_EVENT_ESTABLISHED: return "RDMA_CM_EVENT_ESTABLISHED";
    case RDMA_CM_EVENT_DISCONNECTED: return "RDMA_CM_EVENT_DISCONNECTED";
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return "RDMA_CM_EVENT_DEVICE_REMOVAL";
    case RDMA_CM_EVENT_MULTICAST_JOIN: return "RDMA_CM_EVENT_MULTICAST_JOIN";
    case RDMA_CM_EVENT_MULTICAST_ERROR: return "RDMA_CM_EVENT_MULTICAST_ERROR";
    case RDMA_CM_EVENT_ADDR_CHANGE: return "RDMA_CM_EVENT_ADDR_CHANGE";
    case RDMA_CM_EVENT_TIMEWAIT_EXIT: return "RDMA_CM_EVENT_TIMEWAIT_EXIT";
    default: return "UNKNOWN EVENT";
  }
}

}  // extern "C"
