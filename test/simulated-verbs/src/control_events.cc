// The functions with which tests raise events that nobody asked for.
#include "simulated_verbs.h"

#include <algorithm>
#include <cerrno>

#include "cm_connection.h"
#include "queue_pair.h"
#include "world.h"

using namespace simverbs;

namespace {

int refused() {
  errno = EINVAL;
  return -1;
}

template <typename object>
object* oldest(const std::unordered_map<uint32_t, object*>& all) {
  const auto found = std::min_element(all.begin(), all.end(),
                                      [](const auto& one, const auto& other) { return one.first < other.first; });
  return found == all.end() ? nullptr : found->second;
}

}  // namespace

extern "C" {

int simverbs_raise_cm_event(const char* state, int type, int status) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  const auto wanted = cm_state_named(state);
  // A request is an id of its own, which only a peer can make.
  if (!wanted || type == RDMA_CM_EVENT_CONNECT_REQUEST) return refused();
  std::vector<uint32_t> told;
  for (const auto& [handle, id] : w.cm_ids) {
    if (id->state == *wanted && id->counted) told.push_back(handle);
  }
  for (const uint32_t handle : told) {
    report(about(find_id(handle), static_cast<rdma_cm_event_type>(type), status));
  }
  return static_cast<int>(told.size());
}

int simverbs_raise_async_event(int type) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  ibv_async_event event{};
  event.event_type = static_cast<ibv_event_type>(type);
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST: {
      queue_pair* pair = oldest(w.queue_pairs);
      if (pair == nullptr) return refused();
      event.element.qp = pair;
      raise_async(pair->context, event);
      return 0;
    }
    case IBV_EVENT_CQ_ERR: {
      completion_queue* queue = oldest(w.completion_queues);
      if (queue == nullptr) return refused();
      event.element.cq = queue;
      raise_async(queue->context, event);
      return 0;
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
      return refused();
    default:
      raise_async_on_device(main_device(), event.event_type, event.event_type == IBV_EVENT_DEVICE_FATAL ? 0 : 1);
      return 0;
  }
}

int simverbs_queue_pair_error(uint32_t number) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  queue_pair* pair = w.find_queue_pair(number);
  if (pair == nullptr) return refused();
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = pair;
  raise_async(pair->context, event);
  enter_error(pair);
  return 0;
}

}  // extern "C"
