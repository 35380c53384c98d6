// Posting of work: what a driver checks before the hardware sees anything, and what it copies at once.
#include <cerrno>
#include <cstring>

#include "device_operations.h"
#include "queue_pair.h"
#include "world.h"

namespace simverbs {

namespace {

bool opcode_exists(ibv_wr_opcode opcode) {
  const settings& set = the_world().set;
  switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
    case IBV_WR_LOCAL_INV:
      return true;
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return set.immediates != 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return set.atomics != 0;
    case IBV_WR_BIND_MW:
    case IBV_WR_SEND_WITH_INV:
      return set.memory_windows != 0;
    default:
      return false;
  }
}

bool may_be_inline(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_SEND_WITH_INV ||
         opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

// How drivers say why they have refused work: RoCE's with the errno, as the manual page has it; iWARP's providers with the
// errno negated, and where the kernel is asked and refuses, with -1 beside it.
int as_result(const queue_pair* pair, int error_number) {
  if (pair->context->device->transport_type != IBV_TRANSPORT_IWARP) return error_number;
  if (error_number != ENOTCONN && error_number != EIO) return -error_number;
  errno = error_number;
  return -1;
}

// Some drivers remember that a queue pair has failed and take no more work, where others take it and flush it.
bool refuses_in_error(const queue_pair* pair) {
  return pair->state == IBV_QPS_ERR && the_world().set.work_refused_in_error != 0;
}

int post_one_send(queue_pair* pair, const ibv_send_wr& request) {
  if (const int error_number = call_fails("ibv_post_send")) return error_number;
  if (refuses_in_error(pair)) return EINVAL;
  const bool iwarp = pair->context->device->transport_type == IBV_TRANSPORT_IWARP;
  if (pair->state != IBV_QPS_RTS && pair->state != IBV_QPS_SQD && pair->state != IBV_QPS_ERR) {
    return iwarp ? ENOTCONN : EINVAL;
  }
  if (!opcode_exists(request.opcode)) return EINVAL;
  const int64_t missing = the_world().set.missing_send_slots;
  if (static_cast<int64_t>(pair->send_slots) + missing >= static_cast<int64_t>(pair->capacity.max_send_wr)) {
    return ENOMEM;
  }
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > pair->capacity.max_send_sge) return EINVAL;

  send_work work{};
  work.request = request;
  work.request.next = nullptr;
  work.request.sg_list = nullptr;
  if (request.opcode == IBV_WR_RDMA_WRITE && the_world().set.writes_carry_immediates != 0) {
    work.request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  work.signalled = pair->all_signalled || (request.send_flags & IBV_SEND_SIGNALED) != 0;
  uint64_t total = 0;
  for (int i = 0; i < request.num_sge; ++i) total += request.sg_list[i].length;
  if (request.send_flags & IBV_SEND_INLINE) {
    if (!may_be_inline(request.opcode)) return EINVAL;
    if (total > pair->capacity.max_inline_data) return ENOMEM;
    for (int i = 0; i < request.num_sge; ++i) {
      const auto* from = reinterpret_cast<const uint8_t*>(request.sg_list[i].addr);
      work.inline_bytes.insert(work.inline_bytes.end(), from, from + request.sg_list[i].length);
    }
  } else {
    work.pieces.assign(request.sg_list, request.sg_list + request.num_sge);
  }
  work.byte_count = static_cast<uint32_t>(total);
  if (work.signalled) ++the_world().counts["signalled"];
  if (request.send_flags & IBV_SEND_INLINE) ++the_world().counts["inline"];
  pair->sends.push_back(std::move(work));
  ++pair->send_slots;
  return 0;
}

receive_work copy(const ibv_recv_wr& request) {
  return {request.wr_id, {request.sg_list, request.sg_list + request.num_sge}};
}

int post_one_receive(queue_pair* pair, const ibv_recv_wr& request) {
  if (const int error_number = call_fails("ibv_post_recv")) return error_number;
  if (refuses_in_error(pair)) return EINVAL;
  const bool iwarp = pair->context->device->transport_type == IBV_TRANSPORT_IWARP;
  // Software iWARP takes receives from the start; others want the queue pair initialised.
  if (pair->srq != nullptr || (pair->state == IBV_QPS_RESET && !iwarp)) return EINVAL;
  if (pair->receive_slots >= pair->capacity.max_recv_wr) return ENOMEM;
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > pair->capacity.max_recv_sge) return EINVAL;
  pair->receives.push_back(copy(request));
  ++pair->receive_slots;
  return 0;
}

}  // namespace

int post_send(ibv_qp* plain, ibv_send_wr* first, ibv_send_wr** bad) {
  lock_guard lock(the_world().mutex);
  auto* pair = static_cast<queue_pair*>(plain);
  int error_number = device_of(pair->context)->removed ? EIO : 0;
  ++the_world().counts["send-chains"];
  ibv_send_wr* request = first;
  for (; request != nullptr && error_number == 0; request = request->next) {
    error_number = post_one_send(pair, *request);
    if (error_number != 0) break;
  }
  if (error_number != 0 && the_world().set.refusals_unnamed == 0) *bad = request;
  // What came before the one refused is posted all the same.
  if (pair->state == IBV_QPS_ERR) schedule_flush(pair);
  else kick(pair);
  return as_result(pair, error_number);
}

int post_recv(ibv_qp* plain, ibv_recv_wr* first, ibv_recv_wr** bad) {
  lock_guard lock(the_world().mutex);
  auto* pair = static_cast<queue_pair*>(plain);
  int error_number = device_of(pair->context)->removed ? EIO : 0;
  ++the_world().counts["receive-chains"];
  ibv_recv_wr* request = first;
  for (; request != nullptr && error_number == 0; request = request->next) {
    error_number = post_one_receive(pair, *request);
    if (error_number != 0) break;
  }
  if (error_number != 0) *bad = request;
  if (pair->state == IBV_QPS_ERR) schedule_flush(pair);
  return as_result(pair, error_number);
}

int post_srq_recv(ibv_srq* plain, ibv_recv_wr* first, ibv_recv_wr** bad) {
  lock_guard lock(the_world().mutex);
  auto* queue = static_cast<shared_receive_queue*>(plain);
  for (ibv_recv_wr* request = first; request != nullptr; request = request->next) {
    int error_number = call_fails("ibv_post_srq_recv");
    if (error_number == 0 && queue->work.size() >= queue->capacity) error_number = ENOMEM;
    if (error_number == 0 && (request->num_sge < 0 || static_cast<uint32_t>(request->num_sge) > queue->max_pieces)) {
      error_number = EINVAL;
    }
    if (error_number != 0) {
      *bad = request;
      return error_number;
    }
    queue->work.push_back(copy(*request));
  }
  return 0;
}

}  // namespace simverbs
