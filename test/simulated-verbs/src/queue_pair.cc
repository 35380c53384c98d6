// Longer than 300 lines because a work request is followed from its post to its completion, through all that a device may do to it.
#include "queue_pair.h"

#include <cerrno>
#include <utility>

#include "completion.h"
#include "hardware.h"
#include "world.h"

using namespace simverbs;

namespace simverbs {

namespace {

constexpr size_t entry_bytes = 64;

struct transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;  // attributes besides IBV_QP_STATE, for a reliable connection
};

// Where a queue pair may go besides RESET and ERR, which are always open.
constexpr transition transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0},
};

bool may_move(const queue_pair* pair, ibv_qp_state to, int mask) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return true;
  const bool iwarp = pair->context->device->transport_type == IBV_TRANSPORT_IWARP;
  for (const transition& step : transitions) {
    if (step.from == pair->state && step.to == to) return iwarp || (mask & step.required) == step.required;
  }
  return false;
}

void flush(queue_pair* pair) {
  for (send_work& work : pair->sends) {
    if (work.state == send_work::progress::done) continue;
    work.state = send_work::progress::done;
    work.status = IBV_WC_WR_FLUSH_ERR;
  }
  pair->started = pair->sends.size();
  pair->reads_in_flight = 0;
  retire_sends(pair);
  while (!pair->receives.empty()) {
    const uint64_t wr_id = pair->receives.front().wr_id;
    pair->receives.pop_front();
    complete(pair, {failed_entry(wr_id, IBV_WC_WR_FLUSH_ERR, pair->qp_num), false, false, 1});
  }
  if (pair->srq != nullptr && the_world().set.last_receive_events) {
    ibv_async_event event{};
    event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
    event.element.qp = pair;
    raise_async(pair->context, event);
  }
}

void reset(queue_pair* pair) {
  pair->sends.clear();
  pair->receives.clear();
  pair->started = 0;
  pair->send_slots = pair->receive_slots = 0;
  pair->unsignalled = pair->reads_in_flight = 0;
  pair->send_completions = {};
  pair->receive_completions = {};
  pair->waiting = false;
  ++pair->epoch;
}

}  // namespace

bool can_reach(const queue_pair* pair) {
  const device* owner = device_of(pair->context);
  return owner->port_active && !owner->removed;
}

void schedule_flush(queue_pair* pair) {
  const int64_t delay_us = the_world().set.flush_delay_us;
  if (delay_us < 0 || pair->flush_due) return;
  pair->flush_due = true;
  after(delay_us, [number = pair->qp_num] {
    queue_pair* still = the_world().find_queue_pair(number);
    if (still == nullptr) return;
    still->flush_due = false;
    if (still->state == IBV_QPS_ERR) flush(still);
  });
}

void enter_error(queue_pair* pair) {
  if (pair->state == IBV_QPS_ERR) return;
  pair->state = IBV_QPS_ERR;
  pair->waiting = false;
  ++pair->epoch;
  schedule_flush(pair);
}

namespace {

/// Software iWARP says of a send that it is complete when TCP has it, also when a read before it still waits for its answer.
void report_overtaking_sends(queue_pair* pair) {
  if (!the_world().set.sends_overtake_reads) return;
  for (send_work& work : pair->sends) {
    if (work.state == send_work::progress::queued) return;
    const bool sent = work.request.opcode == IBV_WR_SEND || work.request.opcode == IBV_WR_RDMA_WRITE;
    if (!sent || !work.signalled || work.reported || work.status != IBV_WC_SUCCESS) continue;
    work.reported = true;
    complete(pair, {success_entry(pair, work), false, true, 0});
  }
}

}  // namespace

void retire_sends(queue_pair* pair) {
  while (!pair->sends.empty() && pair->sends.front().state == send_work::progress::done) {
    const send_work work = std::move(pair->sends.front());
    pair->sends.pop_front();
    ++pair->first_number;
    if (pair->started > 0) --pair->started;
    ++pair->unsignalled;
    if (work.status == IBV_WC_SUCCESS && (!work.signalled || work.reported)) {
      // Software devices reuse the place at once; others learn of it with the next completion.
      if (!the_world().set.slots_freed_at_poll) {
        --pair->send_slots;
        --pair->unsignalled;
      }
      continue;
    }
    const bool good = work.status == IBV_WC_SUCCESS;
    const ibv_wc entry = good ? success_entry(pair, work) : failed_entry(work.request.wr_id, work.status, pair->qp_num);
    const uint32_t slots = pair->unsignalled;
    pair->unsignalled = 0;
    complete(pair, {entry, false, true, slots});
  }
  report_overtaking_sends(pair);
}

queue_pair* make_queue_pair(ibv_pd* domain, ibv_qp_init_attr* init, int& error_number) {
  world& w = the_world();
  const settings& set = w.set;
  const ibv_qp_cap& cap = init->cap;
  const size_t pinned = (static_cast<size_t>(cap.max_send_wr) + cap.max_recv_wr) * entry_bytes;
  error_number = call_fails("ibv_create_qp");
  if (error_number != 0) return nullptr;
  if (device_of(domain->context)->removed) {
    error_number = EIO;
  } else if (init->qp_type != IBV_QPT_RC) {
    error_number = EOPNOTSUPP;
  } else if (init->send_cq == nullptr || init->recv_cq == nullptr || init->send_cq->context != domain->context ||
             init->recv_cq->context != domain->context || cap.max_send_wr > set.max_qp_wr ||
             (init->srq == nullptr && cap.max_recv_wr > set.max_qp_wr) || cap.max_send_sge > set.max_sge ||
             cap.max_recv_sge > set.max_sge || cap.max_inline_data > set.max_inline_bytes) {
    error_number = EINVAL;
  } else if (w.live["qp"] >= set.max_qp || !pin(pinned)) {
    error_number = ENOMEM;
  }
  if (error_number != 0) return nullptr;

  auto* pair = new queue_pair();
  pair->context = domain->context;
  pair->qp_context = init->qp_context;
  note_context(init->qp_context);
  pair->pd = domain;
  pair->send_cq = init->send_cq;
  pair->recv_cq = init->recv_cq;
  pair->srq = init->srq;
  pair->handle = w.next_handle();
  const bool reused = set.queue_pair_numbers_reused != 0 && w.last_destroyed_queue_pair != 0;
  pair->qp_num = reused ? std::exchange(w.last_destroyed_queue_pair, 0) : pair->handle;
  pair->state = IBV_QPS_RESET;
  pair->qp_type = init->qp_type;
  pair->capacity = init->cap;
  pair->all_signalled = init->sq_sig_all != 0;
  pair->pinned = pinned;
  ++static_cast<protection_domain*>(domain)->children;
  ++static_cast<completion_queue*>(init->send_cq)->queue_pairs;
  ++static_cast<completion_queue*>(init->recv_cq)->queue_pairs;
  if (init->srq != nullptr) ++static_cast<shared_receive_queue*>(init->srq)->queue_pairs;
  w.queue_pairs[pair->qp_num] = pair;
  ++w.live["qp"];
  return pair;
}

void destroy_queue_pair(lock_guard& lock, queue_pair* pair) {
  world& w = the_world();
  if (pair->events_completed != pair->async_events_read) {
    misuse(lock, "a queue pair destroyed with an asynchronous event that was read and not acknowledged");
  }
  extended(pair->context)->async_events.remove([=](const ibv_async_event& event) {
    switch (event.event_type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        return event.element.qp == pair;
      default:
        return false;
    }
  });
  auto* send_queue = static_cast<completion_queue*>(pair->send_cq);
  auto* receive_queue = static_cast<completion_queue*>(pair->recv_cq);
  // Software iWARP ends what is posted when it is destroyed as when it fails.
  if (device_of(pair->context)->transport_type == IBV_TRANSPORT_IWARP && w.set.flush_delay_us == 0) flush(pair);
  if (w.set.completions_removed_at_destroy) {
    remove_completions(send_queue, pair->qp_num);
    remove_completions(receive_queue, pair->qp_num);
  }
  --send_queue->queue_pairs;
  --receive_queue->queue_pairs;
  if (pair->srq != nullptr) --static_cast<shared_receive_queue*>(pair->srq)->queue_pairs;
  --static_cast<protection_domain*>(pair->pd)->children;
  unpin(pair->pinned);
  w.queue_pairs.erase(pair->qp_num);
  w.last_destroyed_queue_pair = pair->qp_num;
  --w.live["qp"];
  delete pair;
}

int modify_queue_pair(queue_pair* pair, const ibv_qp_attr* wanted, int mask) {
  if (const int error_number = call_fails("ibv_modify_qp")) return error_number;
  if (device_of(pair->context)->removed && (mask & IBV_QP_STATE) && wanted->qp_state != IBV_QPS_ERR) return EIO;
  const ibv_qp_state to = (mask & IBV_QP_STATE) ? wanted->qp_state : pair->state;
  if ((mask & IBV_QP_STATE) ? !may_move(pair, to, mask) : pair->state == IBV_QPS_RESET) return EINVAL;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && wanted->max_rd_atomic > the_world().set.max_rd_atomic) return EINVAL;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && wanted->max_dest_rd_atomic > the_world().set.max_rd_atomic) return EINVAL;

  ibv_qp_attr& attributes = pair->attributes;
  if (mask & IBV_QP_ACCESS_FLAGS) attributes.qp_access_flags = wanted->qp_access_flags;
  if (mask & IBV_QP_DEST_QPN) attributes.dest_qp_num = wanted->dest_qp_num;
  if (mask & IBV_QP_RETRY_CNT) attributes.retry_cnt = wanted->retry_cnt;
  if (mask & IBV_QP_RNR_RETRY) attributes.rnr_retry = wanted->rnr_retry;
  if (mask & IBV_QP_MIN_RNR_TIMER) attributes.min_rnr_timer = wanted->min_rnr_timer;
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) attributes.max_rd_atomic = wanted->max_rd_atomic;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) attributes.max_dest_rd_atomic = wanted->max_dest_rd_atomic;
  if (mask & IBV_QP_TIMEOUT) attributes.timeout = wanted->timeout;
  if (mask & IBV_QP_PATH_MTU) attributes.path_mtu = wanted->path_mtu;
  if (mask & IBV_QP_PORT) attributes.port_num = wanted->port_num;

  if (!(mask & IBV_QP_STATE)) return 0;
  if (to == IBV_QPS_ERR) {
    enter_error(pair);
  } else {
    pair->state = to;
    if (to == IBV_QPS_RESET) reset(pair);
    if (to == IBV_QPS_RTS) {
      pair->tries_left = attributes.retry_cnt;
      pair->rnr_tries_left = attributes.rnr_retry;
      kick(pair);
    }
  }
  return 0;
}

}  // namespace simverbs

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* init) {
  lock_guard lock(the_world().mutex);
  int error_number = 0;
  queue_pair* pair = make_queue_pair(domain, init, error_number);
  if (pair == nullptr) errno = error_number;
  return pair;
}

int ibv_destroy_qp(ibv_qp* plain) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("ibv_destroy_qp")) return error_number;
  wait_in_call(lock, the_world().set.destroy_blocks_us);
  destroy_queue_pair(lock, static_cast<queue_pair*>(plain));
  return 0;
}

int ibv_modify_qp(ibv_qp* plain, ibv_qp_attr* attributes, int mask) {
  lock_guard lock(the_world().mutex);
  return modify_queue_pair(static_cast<queue_pair*>(plain), attributes, mask);
}

int ibv_query_qp(ibv_qp* plain, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("ibv_query_qp")) return error_number;
  if (device_of(plain->context)->removed) return EIO;
  const auto* pair = static_cast<queue_pair*>(plain);
  *attributes = pair->attributes;
  attributes->qp_state = attributes->cur_qp_state = pair->state;
  attributes->cap = pair->capacity;
  *init = {};
  init->qp_context = pair->qp_context;
  init->send_cq = pair->send_cq;
  init->recv_cq = pair->recv_cq;
  init->srq = pair->srq;
  init->cap = pair->capacity;
  init->qp_type = pair->qp_type;
  init->sq_sig_all = pair->all_signalled;
  return 0;
}

}  // extern "C"
