// Asynchronous events: raised by the hardware, read and acknowledged by the application.
#include <cerrno>

#include "world.h"

using namespace simverbs;

namespace simverbs {

void raise_async(ibv_context* where, ibv_async_event event) {
  ++the_world().counts["async-events"];
  extended(where)->async_events.push(event);
}

void raise_async_on_device(device* where, ibv_event_type type, int port) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = port;
  for (device_context* open : where->contexts) raise_async(&open->context, event);
}

}  // namespace simverbs

extern "C" {

int ibv_get_async_event(ibv_context* plain, ibv_async_event* event) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("ibv_get_async_event")) {
    errno = error_number;
    return -1;
  }
  lock.unlock();
  const auto next = extended(plain)->async_events.read_one(lock);
  if (!next) return -1;
  *event = *next;
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      ++static_cast<completion_queue*>(event->element.cq)->async_events_read;
      break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      ++static_cast<queue_pair*>(event->element.qp)->async_events_read;
      break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      ++static_cast<shared_receive_queue*>(event->element.srq)->async_events_read;
      break;
    default:
      break;
  }
  return 0;
}

void ibv_ack_async_event(ibv_async_event* event) {
  lock_guard lock(the_world().mutex);
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      ++event->element.cq->async_events_completed;
      break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      ++event->element.qp->events_completed;
      break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      ++event->element.srq->events_completed;
      break;
    default:
      break;
  }
}

}  // extern "C"
