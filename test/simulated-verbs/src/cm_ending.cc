// Ends of connections and of ids.
#include "cm_connection.h"

#include <unistd.h>

#include <cerrno>

#include "cm_address.h"
#include "queue_pair.h"

using namespace simverbs;

namespace simverbs {

namespace {

int failed(int error_number) {
  errno = error_number;
  return -1;
}

void schedule_timewait(const cm_id* id) {
  if (is_iwarp(id)) return;
  later(id->handle, the_world().set.timewait_us, [](cm_id* still) {
    if (still->timewait_reported) return;
    still->timewait_reported = true;
    report(about(still, RDMA_CM_EVENT_TIMEWAIT_EXIT));
  });
}

// A disconnect request of the peer has come. On InfiniBand the peer waits for ours, or for the end of the id.
void receive_disconnect(cm_id* id) {
  id->disconnect_received = true;
  if (is_iwarp(id)) queue_pair_to_error(id);
  const bool was_up = id->state == cm_state::connected || id->state == cm_state::accepted ||
                      id->state == cm_state::answered;
  if (was_up) report_disconnected(id, 0);
  schedule_timewait(id);
}

void send_disconnect(cm_id* id) {
  if (id->disconnect_sent) return;
  id->disconnect_sent = true;
  const bool answers = id->disconnect_received;
  to_peer(id, [answers](cm_id* peer) {
    if (answers) {
      report_disconnected(peer, 0);
      schedule_timewait(peer);
    } else {
      receive_disconnect(peer);
    }
  });
}

}  // namespace

void await_answer(lock_guard& lock, uint32_t handle) {
  for (;;) {
    const cm_id* id = find_id(handle);
    if (id == nullptr || !is_iwarp(id) || id->state != cm_state::connecting) return;
    lock.unlock();
    usleep(200);
    lock.lock();
  }
}

void queue_pair_to_error(cm_id* id) {
  if (id->qp != nullptr) enter_error(static_cast<queue_pair*>(id->qp));
}

void report_disconnected(cm_id* id, int status) {
  if (id->disconnect_reported || id->state == cm_state::removed) return;
  id->disconnect_reported = true;
  id->state = cm_state::disconnected;
  report(about(id, RDMA_CM_EVENT_DISCONNECTED, status));
}

void connection_lost(uint32_t number) {
  cm_id* id = id_of_queue_pair(number);
  if (id == nullptr) return;
  queue_pair_to_error(id);
  report_disconnected(id, 0);
}

void end_id(cm_id* id) {
  world& w = the_world();
  switch (id->state) {
    case cm_state::requested:
      to_peer(id, [](cm_id* active) { reject_active(active, reject_reason::consumer_defined, {}); });
      break;
    case cm_state::connecting:
      to_peer(id, [](cm_id* passive) {
        if (passive->state == cm_state::connected) {
          receive_disconnect(passive);  // iWARP: the accepting side took itself for connected
        } else if (passive->state != cm_state::removed) {
          passive->state = cm_state::disconnected;
          report(about(passive, RDMA_CM_EVENT_REJECTED, reject_reason::timed_out));
        }
      });
      break;
    case cm_state::accepted:
    case cm_state::answered:
    case cm_state::connected:
    case cm_state::disconnected:
      send_disconnect(id);
      break;
    default:
      break;
  }
  auto* channel = static_cast<cm_channel*>(id->channel);
  std::vector<uint32_t> unread;
  channel->reports.remove([&](const cm_report& what) {
    if (what.id != id->handle) return false;
    if (what.type == RDMA_CM_EVENT_CONNECT_REQUEST) unread.push_back(what.requested);
    return true;
  });
  --channel->ids;
  if (id->counted) --w.live["cm-id"];
  w.cm_ids.erase(id->handle);
  unbind_id(id);
  // Requests that nobody has read end with their listener, also those whose report is still on its way.
  for (const uint32_t handle : id->requests) {
    const cm_id* request = find_id(handle);
    if (request != nullptr && !request->counted) unread.push_back(handle);
  }
  delete id;
  for (const uint32_t handle : unread) {
    if (cm_id* request = find_id(handle)) end_id(request);
  }
}

}  // namespace simverbs

extern "C" {

int rdma_disconnect(rdma_cm_id* plain) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("rdma_disconnect")) return failed(error_number);
  auto* id = static_cast<cm_id*>(plain);
  if (id->verbs == nullptr || id->state == cm_state::listening) return failed(EINVAL);
  await_answer(lock, id->handle);
  queue_pair_to_error(id);
  if (id->peer == 0 || id->state == cm_state::removed) return failed(EINVAL);
  send_disconnect(id);
  if (is_iwarp(id)) {
    report_disconnected(id, 0);
    return 0;
  }
  schedule_timewait(id);
  // The peer's answer ends it; a peer that is gone or silent lets the request time out.
  later(id->handle, the_world().set.cm_timeout_us, [](cm_id* still) {
    if (still->state == cm_state::connected) report_disconnected(still, -ETIMEDOUT);
  });
  return 0;
}

}  // extern "C"
