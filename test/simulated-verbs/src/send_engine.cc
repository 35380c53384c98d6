// The hardware's side of a send queue: begins work in order, waits and tries again, and ends it in order.
#include <cstring>

#include "cm_connection.h"
#include "completion.h"
#include "hardware.h"
#include "memory.h"
#include "queue_pair.h"
#include "transfer.h"
#include "world.h"

namespace simverbs {

namespace {

void run(queue_pair* pair);

void kick_after(queue_pair* pair, int64_t delay_us) {
  after(delay_us, [number = pair->qp_num] {
    if (queue_pair* still = the_world().find_queue_pair(number)) {
      still->kicked = false;
      run(still);
    }
  });
}

/// Leaves the send at the head of the line for a later try.
void wait(queue_pair* pair, int64_t delay_us) {
  ++the_world().counts["retries"];
  pair->waiting = true;
  after(delay_us, [number = pair->qp_num, epoch = pair->epoch] {
    queue_pair* still = the_world().find_queue_pair(number);
    if (still == nullptr || still->epoch != epoch) return;
    still->waiting = false;
    run(still);
  });
}

bool is_iwarp(const queue_pair* pair) { return pair->context->device->transport_type == IBV_TRANSPORT_IWARP; }
bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
bool is_read_like(ibv_wr_opcode opcode) { return opcode == IBV_WR_RDMA_READ || is_atomic(opcode); }

void succeed(send_work& work) { work.state = send_work::progress::done; }

void fail(queue_pair* pair, send_work& work, ibv_wc_status status) {
  work.state = send_work::progress::done;
  work.status = status;
  retire_sends(pair);
  enter_error(pair);
}

/// On iWARP a fault of the peer ends the connection, and the sender learns only that its work was flushed.
void fault_at_peer(queue_pair* pair, send_work& work, queue_pair* peer, ibv_wc_status status) {
  if (!is_iwarp(pair)) {
    fail(pair, work, status);
    return;
  }
  const bool sent_already = !is_read_like(work.request.opcode);
  if (sent_already) succeed(work);
  retire_sends(pair);
  enter_error(pair);
  connection_lost(pair->qp_num);
  connection_lost(peer->qp_num);
}

// Nobody answers: the sender tries again until its retries are used up. iWARP leaves that to TCP.
void no_answer(queue_pair* pair, send_work& work) {
  if (is_iwarp(pair)) {
    if (can_reach(pair)) {
      connection_lost(pair->qp_num);
      enter_error(pair);
    } else {
      wait(pair, the_world().set.ack_timeout_us);
    }
    return;
  }
  if (pair->tries_left-- > 0) wait(pair, the_world().set.ack_timeout_us);
  else fail(pair, work, IBV_WC_RETRY_EXC_ERR);
}

void receiver_not_ready(queue_pair* pair, send_work& work, queue_pair* peer) {
  if (is_iwarp(pair)) {
    responder_fault(peer, IBV_EVENT_QP_FATAL);
    fault_at_peer(pair, work, peer, IBV_WC_RNR_RETRY_EXC_ERR);
    return;
  }
  constexpr int for_ever = 7;
  if (pair->attributes.rnr_retry != for_ever && pair->rnr_tries_left-- <= 0) {
    fail(pair, work, IBV_WC_RNR_RETRY_EXC_ERR);
    return;
  }
  const int64_t delay_us = rnr_wait_us(peer->attributes.min_rnr_timer);
  the_world().counts["rnr-wait-us"] += delay_us;
  wait(pair, delay_us);
}

void send_message(queue_pair* pair, send_work& work, queue_pair* peer) {
  std::vector<uint8_t> bytes;
  gather(work, bytes);
  const bool is_write =
      work.request.opcode == IBV_WR_RDMA_WRITE || work.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  uint8_t* target = nullptr;
  if (is_write && !bytes.empty()) {
    const auto& rdma = work.request.wr.rdma;
    target = remote_bytes(peer, rdma.rkey, rdma.remote_addr, bytes.size(), IBV_ACCESS_REMOTE_WRITE);
    if (target == nullptr) {
      responder_fault(peer, IBV_EVENT_QP_ACCESS_ERR);
      fault_at_peer(pair, work, peer, IBV_WC_REM_ACCESS_ERR);
      return;
    }
  }
  if (work.request.opcode != IBV_WR_RDMA_WRITE) {
    ibv_wc_status status = IBV_WC_SUCCESS;
    switch (deliver(peer, work, bytes, status)) {
      case delivery::not_ready:
        receiver_not_ready(pair, work, peer);
        return;
      case delivery::failed:
        fault_at_peer(pair, work, peer, status);
        return;
      case delivery::good:
        break;
    }
  }
  // A write with an immediate lands before its receive completes for the application: both are under one lock.
  if (target != nullptr) std::memcpy(target, bytes.data(), bytes.size());
  ++the_world().counts[is_write ? "writes" : "sends"];
  pair->tries_left = pair->attributes.retry_cnt;
  pair->rnr_tries_left = pair->attributes.rnr_retry;
  succeed(work);
}

void atomic_operation(const send_work& work, uint8_t* remote, uint8_t* result) {
  auto* target = reinterpret_cast<uint64_t*>(remote);
  const auto& atomic = work.request.wr.atomic;
  uint64_t before;
  if (work.request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    before = __atomic_fetch_add(target, atomic.compare_add, __ATOMIC_SEQ_CST);
  } else {
    before = atomic.compare_add;
    __atomic_compare_exchange_n(target, &before, atomic.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  if (the_world().set.atomic_results_big_endian) before = __builtin_bswap64(before);
  std::memcpy(result, &before, sizeof before);
}

// The answer to a read or an atomic operation has come back.
void land(queue_pair* pair, send_work& work) {
  --pair->reads_in_flight;
  queue_pair* peer = receiver_of(pair);
  if (peer == nullptr) {
    fail(pair, work, IBV_WC_RETRY_EXC_ERR);
    return;
  }
  const bool atomic = is_atomic(work.request.opcode);
  const uint64_t remote_address = atomic ? work.request.wr.atomic.remote_addr : work.request.wr.rdma.remote_addr;
  const uint32_t rkey = atomic ? work.request.wr.atomic.rkey : work.request.wr.rdma.rkey;
  const unsigned needed = IBV_ACCESS_LOCAL_WRITE | (is_iwarp(pair) ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0u);
  if (!local_access_holds(work.pieces, pair->pd, needed)) {
    fail(pair, work, IBV_WC_LOC_PROT_ERR);
    return;
  }
  if (atomic && remote_address % sizeof(uint64_t) != 0) {
    responder_fault(peer, IBV_EVENT_QP_REQ_ERR);
    fail(pair, work, IBV_WC_REM_INV_REQ_ERR);
    return;
  }
  const uint64_t count = total_bytes(work.pieces);
  uint8_t* remote = count == 0 ? nullptr
                               : remote_bytes(peer, rkey, remote_address, count,
                                              atomic ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_READ);
  if (count != 0 && remote == nullptr) {
    responder_fault(peer, IBV_EVENT_QP_ACCESS_ERR);
    fault_at_peer(pair, work, peer, IBV_WC_REM_ACCESS_ERR);
    return;
  }
  if (atomic) {
    atomic_operation(work, remote, reinterpret_cast<uint8_t*>(work.pieces[0].addr));
  } else if (count != 0) {
    scatter(work.pieces, remote, count);
  }
  ++the_world().counts[atomic ? "atomics" : "reads"];
  succeed(work);
}

void start_read(queue_pair* pair, send_work& work, queue_pair* peer, uint32_t number) {
  if (is_atomic(work.request.opcode) && (work.pieces.size() != 1 || work.pieces[0].length != sizeof(uint64_t))) {
    fail(pair, work, IBV_WC_LOC_LEN_ERR);
    return;
  }
  if (pair->reads_in_flight + 1u > peer->attributes.max_dest_rd_atomic) {
    responder_fault(peer, IBV_EVENT_QP_REQ_ERR);
    fault_at_peer(pair, work, peer, IBV_WC_REM_INV_REQ_ERR);
    return;
  }
  ++pair->reads_in_flight;
  work.state = send_work::progress::in_flight;
  after(the_world().set.read_us, [number, of = pair->qp_num, epoch = pair->epoch] {
    queue_pair* still = the_world().find_queue_pair(of);
    if (still == nullptr || still->epoch != epoch) return;
    const uint32_t index = number - still->first_number;
    land(still, still->sends[index]);
    retire_sends(still);
    run(still);
  });
}

void local_operation(queue_pair* pair, send_work& work) {
  if (work.request.opcode == IBV_WR_BIND_MW) {
    const auto& bind = work.request.bind_mw;
    const ibv_wc_status status =
        bind_window(pair, static_cast<memory_window*>(bind.mw), bind.rkey, bind.bind_info);
    if (status == IBV_WC_SUCCESS) succeed(work);
    else fail(pair, work, status);
    return;
  }
  if (invalidate_window(pair, work.request.invalidate_rkey)) succeed(work);
  else fail(pair, work, IBV_WC_LOC_QP_OP_ERR);
}

void begin(queue_pair* pair, send_work& work, uint32_t number) {
  world& w = the_world();
  const ibv_wr_opcode opcode = work.request.opcode;
  if (const int status = w.faults.next_work_status()) {
    fail(pair, work, static_cast<ibv_wc_status>(status));
    return;
  }
  if (opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV) {
    local_operation(pair, work);
    return;
  }
  if (work.byte_count > w.set.max_message_bytes) {
    fail(pair, work, IBV_WC_LOC_LEN_ERR);
    return;
  }
  if (!is_read_like(opcode) && !local_access_holds(work.pieces, pair->pd, 0)) {
    fail(pair, work, IBV_WC_LOC_PROT_ERR);
    return;
  }
  if (is_read_like(opcode) && pair->attributes.max_rd_atomic == 0) {
    fail(pair, work, IBV_WC_LOC_QP_OP_ERR);
    return;
  }
  queue_pair* peer = receiver_of(pair);
  if (peer == nullptr) {
    no_answer(pair, work);
    return;
  }
  peer->heard_from_peer = true;
  // What the passive side of an iWARP connection posted waits for the first message of the other.
  if (peer->is_passive && is_iwarp(peer)) kick(peer);
  if (is_read_like(opcode)) start_read(pair, work, peer, number);
  else send_message(pair, work, peer);
}

void run(queue_pair* pair) {
  world& w = the_world();
  while (pair->state == IBV_QPS_RTS && !pair->waiting && pair->started < pair->sends.size()) {
    if (w.faults.is_held(hold_point::hardware, pair->qp_num)) return;
    if (is_iwarp(pair) && pair->is_passive && !pair->heard_from_peer) return;
    send_work& work = pair->sends[pair->started];
    if (pair->reads_in_flight > 0) {
      if (work.request.send_flags & IBV_SEND_FENCE) return;
      if (is_read_like(work.request.opcode) && pair->reads_in_flight >= pair->attributes.max_rd_atomic) return;
    }
    const uint32_t number = pair->first_number + static_cast<uint32_t>(pair->started);
    const size_t place = pair->started++;
    begin(pair, work, number);
    if (pair->state == IBV_QPS_RTS && pair->waiting) {
      pair->started = place;
      return;
    }
    retire_sends(pair);
    if (w.set.packet_us > 0) {
      kick(pair);
      return;
    }
  }
}

}  // namespace

void kick(queue_pair* pair) {
  if (pair->kicked) return;
  pair->kicked = true;
  kick_after(pair, the_world().set.packet_us);
}

}  // namespace simverbs
