#include <cerrno>

#include "world.h"

using namespace simverbs;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* init) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  int error_number = call_fails("ibv_create_srq");
  if (error_number == 0 && device_of(domain->context)->removed) error_number = EIO;
  if (error_number == 0 && (init->attr.max_wr > w.set.max_srq_wr || init->attr.max_sge > w.set.max_sge)) {
    error_number = EINVAL;
  }
  if (error_number == 0 && w.live["srq"] >= w.set.max_srq) error_number = ENOMEM;
  if (error_number != 0) {
    errno = error_number;
    return nullptr;
  }
  auto* queue = new shared_receive_queue();
  queue->context = domain->context;
  queue->srq_context = init->srq_context;
  note_context(init->srq_context);
  queue->pd = domain;
  queue->handle = w.next_handle();
  queue->capacity = init->attr.max_wr;
  queue->max_pieces = init->attr.max_sge;
  ++static_cast<protection_domain*>(domain)->children;
  ++w.live["srq"];
  return queue;
}

int ibv_modify_srq(ibv_srq* plain, ibv_srq_attr* attributes, int mask) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("ibv_modify_srq")) return error_number;
  auto* queue = static_cast<shared_receive_queue*>(plain);
  if (mask & IBV_SRQ_MAX_WR) return EOPNOTSUPP;
  if (mask & IBV_SRQ_LIMIT) {
    if (attributes->srq_limit > queue->capacity) return EINVAL;
    queue->limit = attributes->srq_limit;
  }
  return 0;
}

int ibv_query_srq(ibv_srq* plain, ibv_srq_attr* attributes) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("ibv_query_srq")) return error_number;
  const auto* queue = static_cast<shared_receive_queue*>(plain);
  attributes->max_wr = queue->capacity;
  attributes->max_sge = queue->max_pieces;
  attributes->srq_limit = queue->limit;
  return 0;
}

int ibv_destroy_srq(ibv_srq* plain) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_destroy_srq")) return error_number;
  auto* queue = static_cast<shared_receive_queue*>(plain);
  if (queue->queue_pairs != 0) {
    ++w.counts["busy"];
    return EBUSY;
  }
  if (queue->events_completed != queue->async_events_read) {
    misuse(lock, "ibv_destroy_srq with an asynchronous event that was read and not acknowledged");
  }
  extended(queue->context)->async_events.remove([=](const ibv_async_event& event) {
    return (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED || event.event_type == IBV_EVENT_SRQ_ERR) &&
           event.element.srq == queue;
  });
  --static_cast<protection_domain*>(queue->pd)->children;
  --w.live["srq"];
  delete queue;
  return 0;
}

}  // extern "C"
