#include "transfer.h"

#include <cstring>

#include "completion.h"
#include "memory.h"
#include "queue_pair.h"
#include "world.h"

namespace simverbs {

queue_pair* receiver_of(const queue_pair* pair) {
  queue_pair* peer = the_world().find_queue_pair(pair->attributes.dest_qp_num);
  if (peer == nullptr || peer->attributes.dest_qp_num != pair->qp_num) return nullptr;
  if (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS && peer->state != IBV_QPS_SQD) return nullptr;
  if (!can_reach(pair) || !can_reach(peer)) return nullptr;
  return peer;
}

int64_t rnr_wait_us(uint8_t code) {
  // InfiniBand specification, table 45: code 0 is the longest of all.
  static constexpr int64_t table[32] = {655360, 10,   20,   30,   40,    60,    80,    120,   160,   240,   320,
                                        480,    640,  960,  1280, 1920,  2560,  3840,  5120,  7680,  10240, 15360,
                                        20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
  return table[code & 31];
}

void gather(const send_work& work, std::vector<uint8_t>& bytes) {
  if (work.request.send_flags & IBV_SEND_INLINE) {
    bytes = work.inline_bytes;
    return;
  }
  bytes.resize(total_bytes(work.pieces));
  size_t at = 0;
  for (const ibv_sge& piece : work.pieces) {
    if (piece.length != 0) std::memcpy(bytes.data() + at, reinterpret_cast<const void*>(piece.addr), piece.length);
    at += piece.length;
  }
}

void scatter(const std::vector<ibv_sge>& pieces, const uint8_t* bytes, size_t count) {
  for (const ibv_sge& piece : pieces) {
    if (count == 0) return;
    const size_t part = piece.length < count ? piece.length : count;
    if (part != 0) std::memcpy(reinterpret_cast<void*>(piece.addr), bytes, part);
    bytes += part;
    count -= part;
  }
}

uint64_t total_bytes(const std::vector<ibv_sge>& pieces) {
  uint64_t total = 0;
  for (const ibv_sge& piece : pieces) total += piece.length;
  return total;
}

namespace {

bool take_receive(queue_pair* receiver, receive_work& taken) {
  if (receiver->srq == nullptr) {
    if (receiver->receives.empty()) return false;
    taken = std::move(receiver->receives.front());
    receiver->receives.pop_front();
    return true;
  }
  auto* shared = static_cast<shared_receive_queue*>(receiver->srq);
  if (shared->work.empty()) return false;
  taken = std::move(shared->work.front());
  shared->work.pop_front();
  if (shared->limit != 0 && shared->work.size() < shared->limit) {
    shared->limit = 0;  // one warning for each time that the application asks for it
    ibv_async_event event{};
    event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    event.element.srq = shared;
    raise_async(receiver->context, event);
  }
  return true;
}

ibv_pd* domain_of_receives(const queue_pair* receiver) {
  const bool shared = receiver->srq != nullptr && !the_world().set.shared_receives_in_domain_of_queue_pair;
  return shared ? receiver->srq->pd : receiver->pd;
}

}  // namespace

delivery deliver(queue_pair* receiver, const send_work& work, const std::vector<uint8_t>& bytes,
                 ibv_wc_status& request_status) {
  world& w = the_world();
  receive_work taken;
  if (w.faults.take_receiver_not_ready() || !take_receive(receiver, taken)) {
    ++w.counts["rnr-answers"];
    return delivery::not_ready;
  }
  const uint32_t slots = receiver->srq == nullptr ? 1 : 0;
  const bool is_write = work.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  ibv_wc_status status = IBV_WC_SUCCESS;
  if (!is_write && bytes.size() > total_bytes(taken.pieces)) {
    status = IBV_WC_LOC_LEN_ERR;
    request_status = IBV_WC_REM_INV_REQ_ERR;
  } else if (!is_write && !local_access_holds(taken.pieces, domain_of_receives(receiver), IBV_ACCESS_LOCAL_WRITE)) {
    status = IBV_WC_LOC_PROT_ERR;
    request_status = IBV_WC_REM_OP_ERR;
  } else if (work.request.opcode == IBV_WR_SEND_WITH_INV &&
             !invalidate_window(receiver, work.request.invalidate_rkey)) {
    status = IBV_WC_LOC_PROT_ERR;
    request_status = IBV_WC_REM_ACCESS_ERR;
  }
  if (status != IBV_WC_SUCCESS) {
    complete(receiver, {failed_entry(taken.wr_id, status, receiver->qp_num), false, false, slots});
    enter_error(receiver);
    return delivery::failed;
  }
  if (!is_write) scatter(taken.pieces, bytes.data(), bytes.size());
  ibv_wc entry{};
  entry.wr_id = taken.wr_id;
  entry.status = IBV_WC_SUCCESS;
  entry.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  entry.byte_len = static_cast<uint32_t>(bytes.size());
  entry.qp_num = receiver->qp_num;
  entry.src_qp = receiver->attributes.dest_qp_num;
  if (is_write || work.request.opcode == IBV_WR_SEND_WITH_IMM) {
    entry.wc_flags |= IBV_WC_WITH_IMM;
    entry.imm_data = work.request.imm_data;
  } else if (work.request.opcode == IBV_WR_SEND_WITH_INV) {
    entry.wc_flags |= IBV_WC_WITH_INV;
    entry.invalidated_rkey = work.request.invalidate_rkey;
  }
  complete(receiver, {entry, (work.request.send_flags & IBV_SEND_SOLICITED) != 0, false, slots});
  return delivery::good;
}

void responder_fault(queue_pair* responder, ibv_event_type type) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = responder;
  raise_async(responder->context, event);
  enter_error(responder);
}

}  // namespace simverbs
