// Completion channels and completion queues as the application calls them.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "completion.h"
#include "world.h"

using namespace simverbs;

namespace simverbs {

namespace {
constexpr size_t entry_bytes = 64;
}

int poll_cq(ibv_cq* plain, int capacity, ibv_wc* entries) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (call_fails("ibv_poll_cq") != 0) return -1;
  auto* queue = static_cast<completion_queue*>(plain);
  int count = 0;
  while (count < capacity && !queue->entries.empty()) {
    const completion& first = queue->entries.front();
    entries[count++] = first.entry;
    if (w.set.slots_freed_at_poll) {
      if (queue_pair* pair = w.find_queue_pair(first.entry.qp_num)) {
        (first.is_send ? pair->send_slots : pair->receive_slots) -= first.slots;
      }
    }
    queue->entries.pop_front();
  }
  if (count == 0 && queue->overrun) return -1;
  return count;
}

int req_notify_cq(ibv_cq* plain, int solicited_only) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_req_notify_cq")) return error_number;
  auto* queue = static_cast<completion_queue*>(plain);
  if (w.set.completions_race_arming) hurry_completions(queue);
  // Armed for any completion stays so when a weaker request follows.
  if (!solicited_only) queue->armed = completion_queue::arming::any;
  else if (queue->armed == completion_queue::arming::none) queue->armed = completion_queue::arming::solicited;
  return 0;
}

}  // namespace simverbs

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_create_comp_channel")) {
    errno = error_number;
    return nullptr;
  }
  if (device_of(context)->removed) {
    errno = EIO;
    return nullptr;
  }
  auto* channel = new completion_channel();
  if (channel->events.fd() < 0) {
    delete channel;
    errno = EMFILE;
    return nullptr;
  }
  channel->context = context;
  channel->fd = w.set.unwatchable_channels != 0 ? memfd_create("channel", MFD_CLOEXEC) : channel->events.fd();
  channel->refcnt = 0;
  ++extended(context)->children;
  ++w.live["comp-channel"];
  return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* plain) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_destroy_comp_channel")) return error_number;
  if (plain->refcnt != 0) {
    ++w.counts["busy"];
    return EBUSY;
  }
  --extended(plain->context)->children;
  --w.live["comp-channel"];
  auto* channel = static_cast<completion_channel*>(plain);
  if (channel->fd != channel->events.fd()) close(channel->fd);
  delete channel;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel, int vector) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  int error_number = call_fails("ibv_create_cq");
  const size_t pinned = static_cast<size_t>(entries > 0 ? entries : 0) * entry_bytes;
  if (error_number != 0) {
  } else if (device_of(context)->removed) {
    error_number = EIO;
  } else if (entries <= 0 || entries > w.set.max_cqe || vector < 0 || vector >= context->num_comp_vectors) {
    error_number = EINVAL;
  } else if (w.live["cq"] >= w.set.max_cq || !pin(pinned)) {
    error_number = ENOMEM;
  }
  if (error_number != 0) {
    errno = error_number;
    return nullptr;
  }
  auto* queue = new completion_queue();
  queue->context = context;
  queue->channel = channel;
  queue->cq_context = cq_context;
  note_context(cq_context);
  queue->handle = w.next_handle();
  queue->cqe = entries;
  queue->pinned = pinned;
  if (channel != nullptr) ++channel->refcnt;
  w.completion_queues[queue->handle] = queue;
  ++extended(context)->children;
  ++w.live["cq"];
  return queue;
}

int ibv_destroy_cq(ibv_cq* plain) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_destroy_cq")) return error_number;
  auto* queue = static_cast<completion_queue*>(plain);
  if (queue->queue_pairs != 0) {
    ++w.counts["busy"];
    return EBUSY;
  }
  if (queue->comp_events_completed != queue->events_read) {
    misuse(lock, "ibv_destroy_cq with completion events that were read and not acknowledged");
  }
  if (queue->async_events_completed != queue->async_events_read) {
    misuse(lock, "ibv_destroy_cq with an asynchronous event that was read and not acknowledged");
  }
  if (queue->channel != nullptr) {
    static_cast<completion_channel*>(queue->channel)->events.remove([=](completion_queue* of) { return of == queue; });
    --queue->channel->refcnt;
  }
  extended(queue->context)->async_events.remove([=](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == queue;
  });
  unpin(queue->pinned);
  w.completion_queues.erase(queue->handle);
  --extended(queue->context)->children;
  --w.live["cq"];
  delete queue;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* plain, ibv_cq** queue, void** context) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("ibv_get_cq_event")) {
    errno = error_number;
    return -1;
  }
  lock.unlock();
  const auto of = static_cast<completion_channel*>(plain)->events.read_one(lock);
  if (!of) return -1;
  ++(*of)->events_read;
  *queue = *of;
  *context = (*of)->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* plain, unsigned int count) {
  lock_guard lock(the_world().mutex);
  plain->comp_events_completed += count;
}

}  // extern "C"
