#include "engine/operation_queue.h"

#include <algorithm>
#include <utility>

#include "engine/work_id.h"

namespace verbmq {

namespace {

ibv_wr_opcode opcode_of(operation_kind kind) {
  switch (kind) {
    case operation_kind::read:
    case operation_kind::fetch: return IBV_WR_RDMA_READ;
    case operation_kind::write: return IBV_WR_RDMA_WRITE;
    case operation_kind::fetch_add: return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case operation_kind::compare_and_swap: return IBV_WR_ATOMIC_CMP_AND_SWP;
  }
  return IBV_WR_RDMA_READ;
}

bool is_atomic(operation_kind kind) {
  return kind == operation_kind::fetch_add || kind == operation_kind::compare_and_swap;
}

}  // namespace

void operation_queue::configure(uint32_t read_depth, uint32_t port_bytes) noexcept {
  read_depth_ = std::min(read_depth, slots);
  piece_bytes_ = std::min(wished_piece_bytes, std::max(port_bytes, 1u));
}

std::optional<operation_queue::piece> operation_queue::next() {
  if (waiting_.empty() || posted_.size() >= slots) return std::nullopt;
  operation& first = waiting_.front();
  if (first.is_read() && reads_posted_ >= read_depth_) return std::nullopt;

  const uint64_t at = first_staged_bytes_;
  const uint32_t bytes = static_cast<uint32_t>(std::min<uint64_t>(piece_bytes_, first.bytes - at));
  piece made{};
  made.number = (first_number_ + static_cast<uint32_t>(posted_.size())) & work_id::number_mask;
  made.local = {reinterpret_cast<uintptr_t>(first.local->base() + first.local_offset + at), bytes, first.local->lkey()};
  made.request.opcode = opcode_of(first.kind);
  if (is_atomic(first.kind)) {
    made.request.wr.atomic.remote_addr = first.remote_address;
    made.request.wr.atomic.rkey = first.rkey;
    made.request.wr.atomic.compare_add = first.operand;
    made.request.wr.atomic.swap = first.swap;
  } else {
    made.request.wr.rdma.remote_addr = first.remote_address + at;
    made.request.wr.rdma.rkey = first.rkey;
  }

  const bool is_last = at + bytes == first.bytes;
  posted_.push_back({first.kind == operation_kind::fetch, first.is_read(), is_last, false});
  if (first.is_read()) ++reads_posted_;
  first_staged_bytes_ = is_last ? 0 : at + bytes;
  if (is_last) {
    started_.push_back(std::move(first));
    waiting_.pop_front();
  }
  return made;
}

void operation_queue::complete(uint32_t number, std::vector<operation>& finished) {
  const uint32_t distance = (number - first_number_) & work_id::number_mask;
  if (distance >= posted_.size() || posted_[distance].is_complete) return;
  posted_[distance].is_complete = true;
  if (posted_[distance].is_read) --reads_posted_;
  while (!posted_.empty() && posted_.front().is_complete) {
    const bool is_last = posted_.front().is_last;
    posted_.pop_front();
    first_number_ = (first_number_ + 1) & work_id::number_mask;
    if (!is_last) continue;
    finished.push_back(std::move(started_.front()));
    started_.pop_front();
  }
}

bool operation_queue::is_fetch(uint32_t number) const noexcept {
  const uint32_t distance = (number - first_number_) & work_id::number_mask;
  return distance < posted_.size() && posted_[distance].is_fetch;
}

}  // namespace verbmq
