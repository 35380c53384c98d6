// Requests for connections and their answers.
#include "cm_connection.h"

#include <cerrno>
#include <cstring>

#include "cm_address.h"
#include "hardware.h"
#include "queue_pair.h"
#include "world.h"

using namespace simverbs;

namespace simverbs {

namespace {

// What fits into the messages of the InfiniBand connection manager in this port space. Receivers always see the
// whole field, filled up with zeros.
constexpr size_t request_bytes = 56;
constexpr size_t reply_bytes = 196;
constexpr size_t reject_bytes = 148;
int failed(int error_number) {
  errno = error_number;
  return -1;
}

bool carries_too_much(const cm_id* id, size_t bytes, size_t limit) { return !is_iwarp(id) && bytes > limit; }

std::vector<uint8_t> private_data(const cm_id* id, const void* data, size_t bytes, size_t field_bytes) {
  std::vector<uint8_t> result;
  if (data != nullptr) {
    result.assign(static_cast<const uint8_t*>(data), static_cast<const uint8_t*>(data) + bytes);
  }
  if (!is_iwarp(id)) result.resize(field_bytes);
  return result;
}

// RDMA attributes of a connection, as the kernel's connection manager chooses them.
int move_queue_pair(cm_id* id) {
  if (id->qp == nullptr) return 0;
  auto* pair = static_cast<queue_pair*>(id->qp);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.dest_qp_num = id->peer_qp;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.max_dest_rd_atomic = id->responder_resources;
  attributes.min_rnr_timer = 0;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (id->responder_resources > 0) attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  pair->is_passive = id->is_passive;
  int error_number = modify_queue_pair(pair, &attributes,
                                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS);
  if (error_number != 0) return error_number;
  attributes.qp_state = IBV_QPS_RTS;
  attributes.retry_cnt = id->retry_count;
  attributes.rnr_retry = id->peer_rnr_retry_count;
  attributes.max_rd_atomic = id->initiator_depth;
  return modify_queue_pair(pair, &attributes,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                               IBV_QP_MAX_QP_RD_ATOMIC);
}

/// Whether what the peer sends first would find no receive. An application without a queue pair here brings its own.
bool lacks_receives(const cm_id* id) {
  if (id->qp == nullptr || id->qp->state == IBV_QPS_ERR) return false;
  const auto* pair = static_cast<const queue_pair*>(id->qp);
  return pair->srq != nullptr ? static_cast<const shared_receive_queue*>(pair->srq)->work.empty()
                              : pair->receives.empty();
}

/// The socket below a listener of iWARP on the wildcard of IPv6 takes IPv4 as well; but there its address is one of IPv6, which no device
/// has, and the kernel refuses what it has taken (seen with Linux 6.1).
bool is_of_no_device(const cm_id* active, const cm_id* listener) {
  return is_iwarp(active) && active->route.addr.dst_addr.sa_family != listener->route.addr.src_addr.sa_family;
}

void take_request(cm_id* active, std::vector<uint8_t> data, uint8_t rnr_retry_count) {
  cm_id* listener = find_listener(&active->route.addr.dst_addr, active->ps);
  if (listener == nullptr) {
    reject_active(active, reject_reason::invalid_service_id, {});
    return;
  }
  if (listener->requests_left == 0 || is_of_no_device(active, listener)) {
    reject_active(active, reject_reason::consumer_defined, {});
    return;
  }
  --listener->requests_left;
  cm_id* passive = make_id(static_cast<cm_channel*>(listener->channel), listener->context, listener->ps);
  passive->state = cm_state::requested;
  passive->is_passive = true;
  listener->requests.push_back(passive->handle);
  take_device(passive);
  passive->peer = active->handle;
  passive->peer_qp = active->qp != nullptr ? active->qp->qp_num : 0;
  passive->retry_count = active->retry_count;
  passive->peer_rnr_retry_count = rnr_retry_count;
  passive->responder_resources = active->initiator_depth;
  passive->initiator_depth = active->responder_resources;
  passive->route.addr.src_storage = active->route.addr.dst_storage;
  passive->route.addr.dst_storage = active->route.addr.src_storage;
  active->peer = passive->handle;
  cm_report what = about(listener, RDMA_CM_EVENT_CONNECT_REQUEST);
  what.requested = passive->handle;
  what.responder_resources = active->initiator_depth;
  what.initiator_depth = active->responder_resources;
  what.rnr_retry_count = rnr_retry_count;
  what.qp_num = passive->peer_qp;
  what.private_data = std::move(data);
  report(std::move(what));
}

void take_answer(cm_id* active, cm_report answer, uint8_t responder_resources, uint8_t initiator_depth) {
  if (active->state != cm_state::connecting) return;
  active->state = cm_state::answered;
  active->peer_qp = answer.qp_num;
  active->peer_rnr_retry_count = answer.rnr_retry_count;
  active->responder_resources = initiator_depth;
  active->initiator_depth = responder_resources;
  answer.id = active->handle;
  answer.responder_resources = initiator_depth;
  answer.initiator_depth = responder_resources;
  // The kernel itself completes an iWARP connection.
  answer.type = is_iwarp(active) ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE;
  if (is_iwarp(active) && establish(active) != 0) answer.type = RDMA_CM_EVENT_CONNECT_ERROR;
  report(std::move(answer));
}

// The values of a connection's parameters that stand for "as many as the device has".
uint8_t depth(uint8_t wanted, uint8_t as_many_as_possible) {
  const int64_t limit = the_world().set.max_rd_atomic;
  if (wanted != as_many_as_possible) return wanted;
  return static_cast<uint8_t>(limit < 254 ? limit : 254);
}

bool too_deep(const rdma_conn_param* parameters) {
  const int64_t limit = the_world().set.max_rd_atomic;
  return (parameters->responder_resources != RDMA_MAX_RESP_RES && parameters->responder_resources > limit) ||
         (parameters->initiator_depth != RDMA_MAX_INIT_DEPTH && parameters->initiator_depth > limit);
}

}  // namespace

void reject_active(cm_id* active, int status, std::vector<uint8_t> data) {
  if (active->state != cm_state::connecting) return;
  active->state = cm_state::route_resolved;
  cm_report what = about(active, RDMA_CM_EVENT_REJECTED, is_iwarp(active) ? -ECONNREFUSED : status);
  what.private_data = std::move(data);
  report(std::move(what));
}

int establish(cm_id* id) {
  if (const int error_number = move_queue_pair(id)) return error_number;
  id->state = cm_state::connected;
  to_peer(id, [](cm_id* passive) {
    // On iWARP the accepting side has heard of it already.
    if (passive->state != cm_state::accepted) return;
    passive->state = cm_state::connected;
    report(about(passive, RDMA_CM_EVENT_ESTABLISHED));
  });
  return 0;
}

}  // namespace simverbs

extern "C" {

int rdma_connect(rdma_cm_id* plain, rdma_conn_param* parameters) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  auto* id = static_cast<cm_id*>(plain);
  int error_number = call_fails("rdma_connect");
  if (error_number != 0) return failed(error_number);
  if (id->state == cm_state::removed) return failed(ENODEV);
  if (id->state != cm_state::route_resolved || parameters == nullptr || too_deep(parameters) ||
      carries_too_much(id, parameters->private_data_len, request_bytes)) {
    return failed(EINVAL);
  }
  if (lacks_receives(id)) misuse("rdma_connect before a receive is posted");
  if (is_iwarp(id)) {
    // Software iWARP connects its socket within the call, and hears there that nobody listens.
    const uint32_t handle = id->handle;
    if (w.set.connect_blocks_us > 0) {
      wait_in_call(lock, w.set.connect_blocks_us);
      if (find_id(handle) == nullptr || id->state != cm_state::route_resolved) return failed(EINVAL);
    }
    if (find_listener(&id->route.addr.dst_addr, id->ps) == nullptr) return failed(ECONNREFUSED);
  }
  id->state = cm_state::connecting;
  id->responder_resources = depth(parameters->responder_resources, RDMA_MAX_RESP_RES);
  id->initiator_depth = depth(parameters->initiator_depth, RDMA_MAX_INIT_DEPTH);
  id->retry_count = parameters->retry_count;
  std::vector<uint8_t> data =
      private_data(id, parameters->private_data, parameters->private_data_len, request_bytes);
  after(w.set.cm_packet_us, [handle = id->handle, data, rnr = parameters->rnr_retry_count] {
    cm_id* active = find_id(handle);
    if (active == nullptr || active->state != cm_state::connecting || !main_device()->port_active) return;
    take_request(active, data, rnr);
  });
  later(id->handle, w.set.cm_timeout_us, [](cm_id* active) {
    if (active->state != cm_state::connecting) return;
    active->state = cm_state::route_resolved;
    report(about(active, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT));
  });
  return 0;
}

int rdma_accept(rdma_cm_id* plain, rdma_conn_param* parameters) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  auto* id = static_cast<cm_id*>(plain);
  int error_number = call_fails("rdma_accept");
  if (error_number != 0) return failed(error_number);
  if (id->state == cm_state::removed) return failed(ENODEV);
  if (id->state != cm_state::requested || parameters == nullptr || too_deep(parameters) ||
      carries_too_much(id, parameters->private_data_len, reply_bytes)) {
    return failed(EINVAL);
  }
  if (lacks_receives(id)) misuse("rdma_accept before a receive is posted");
  if (parameters->responder_resources != RDMA_MAX_RESP_RES) id->responder_resources = parameters->responder_resources;
  if (parameters->initiator_depth != RDMA_MAX_INIT_DEPTH) id->initiator_depth = parameters->initiator_depth;
  error_number = move_queue_pair(id);
  if (error_number != 0) return failed(error_number);
  id->state = cm_state::accepted;
  cm_report answer;
  answer.qp_num = id->qp != nullptr ? id->qp->qp_num : parameters->qp_num;
  answer.rnr_retry_count = parameters->rnr_retry_count;
  answer.private_data = private_data(id, parameters->private_data, parameters->private_data_len, reply_bytes);
  const uint8_t responder_resources = id->responder_resources;
  const uint8_t initiator_depth = id->initiator_depth;
  to_peer(id, [answer, responder_resources, initiator_depth](cm_id* active) {
    take_answer(active, answer, responder_resources, initiator_depth);
  });
  if (is_iwarp(id)) {
    id->state = cm_state::connected;
    report(about(id, RDMA_CM_EVENT_ESTABLISHED));
    return 0;
  }
  later(id->handle, w.set.cm_timeout_us, [](cm_id* passive) {
    if (passive->state != cm_state::accepted) return;
    passive->state = cm_state::disconnected;
    report(about(passive, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT));
  });
  return 0;
}

int rdma_establish(rdma_cm_id* plain) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("rdma_establish")) return failed(error_number);
  auto* id = static_cast<cm_id*>(plain);
  if (id->qp != nullptr || id->state != cm_state::answered) return failed(EINVAL);
  const int error_number = establish(id);
  return error_number == 0 ? 0 : failed(error_number);
}

int rdma_reject(rdma_cm_id* plain, const void* data, uint8_t bytes) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("rdma_reject")) return failed(error_number);
  auto* id = static_cast<cm_id*>(plain);
  if (id->state != cm_state::requested || carries_too_much(id, bytes, reject_bytes)) return failed(EINVAL);
  id->state = cm_state::disconnected;
  id->disconnect_sent = true;
  const std::vector<uint8_t> copy = private_data(id, data, bytes, reject_bytes);
  to_peer(id, [copy](cm_id* active) { reject_active(active, reject_reason::consumer_defined, copy); });
  return 0;
}

int rdma_notify(rdma_cm_id* plain, ibv_event_type type) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("rdma_notify")) return failed(error_number);
  auto* id = static_cast<cm_id*>(plain);
  if (type != IBV_EVENT_COMM_EST || id->state != cm_state::accepted) return failed(EINVAL);
  id->state = cm_state::connected;
  report(about(id, RDMA_CM_EVENT_ESTABLISHED));
  return 0;
}

}  // extern "C"
