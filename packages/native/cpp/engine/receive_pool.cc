#include "engine/receive_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// Vendors that rxe reports (RXE_VENDOR_ID; 0 before Linux 5.10). It looks for the memory of a shared receive in the domain of
// the queue pair that took it (drivers/infiniband/sw/rxe/rxe_resp.c, send_data_in), where siw and hardware take that of the
// shared receive queue.
constexpr uint32_t rxe_vendor_ids[] = {0xffffff, 0};

bool wants_one_domain(const ibv_device_attr& attributes) {
  return std::find(std::begin(rxe_vendor_ids), std::end(rxe_vendor_ids), attributes.vendor_id) !=
         std::end(rxe_vendor_ids);
}

// Holds slots of connections that have left. It names no connection: another one may get the handle of one that has left before the last
// of its messages is released.
const handle orphaned = handle::from_value(UINT32_MAX);

// The device warns when fewer are left. With credits that is no fault: it only says that the pool is in full use.
uint32_t low_mark(uint32_t slots) { return std::max(1u, slots / 16); }

void check_limits(const device_context& context, const ibv_device_attr& attributes, uint32_t slots) {
  const std::string device = "the device " + context.name();
  const auto receives = static_cast<uint32_t>(std::max(0, attributes.max_srq > 0 ? attributes.max_srq_wr : 0));
  if (receives == 0) {
    throw verbs_error("srq-unsupported", "ibv_create_srq", 0, device + " has no shared receive queues");
  }
  // All of them complete on one queue.
  const auto completions = static_cast<uint32_t>(std::max(0, attributes.max_cqe));
  const uint32_t most = std::min(receives, completions);
  if (slots <= most) return;
  const char* what = most == receives ? " receives in a shared queue, not " : " completions in a queue, not ";
  throw verbs_error("srq-unsupported", "ibv_create_srq", 0,
                    device + " allows " + std::to_string(most) + what + std::to_string(slots));
}

}  // namespace

receive_pool::receive_pool(uint32_t number, device_resources& device, const receive_pool_sizes& sizes, uint8_t* base,
                           std::shared_ptr<void> owner)
    : number_(number), sizes_(sizes), base_(base), context_(device.context().get()), owner_(std::move(owner)) {
  check_limits(device.context(), device.attributes(), sizes.slots);
  // No more receives can complete at once than are posted.
  reservation_ = device.reserve(sizes.slots);
  domain_ = std::make_shared<protection_domain>(device.shared_context());
  region_ = std::make_unique<memory_region>(domain_, base_, bytes(), IBV_ACCESS_LOCAL_WRITE);
  queue_ = std::make_shared<shared_receive_queue>(domain_, sizes.slots);
  holders_.resize(sizes.slots);
  for (uint32_t slot = 0; slot < sizes.slots; ++slot) free_.push_back(slot);
  if (!post()) throw verbs_error("device", "ibv_post_srq_recv", 0, failure_);
  queue_->warn_below(low_mark(sizes_.slots));
}

std::shared_ptr<protection_domain> receive_pool::domain_for(device_resources& device) const {
  return wants_one_domain(device.attributes()) ? domain_
                                               : std::make_shared<protection_domain>(device.shared_context());
}

void receive_pool::join(pool_share& share, uint32_t ceiling) {
  const uint32_t needed = (connections_ + 1) * slots_per_connection + lent_ + orphans_;
  if (connections_ >= sizes_.connections || needed > sizes_.slots) {
    throw verbs_error("receive-pool-full", "ibv_create_qp", 0,
                      "the shared receive queue serves " + std::to_string(connections_) + " connections already" +
                          (orphans_ > 0 ? ", and messages of ended ones are not released" : ""));
  }
  // What was given back is counted as posted from here on.
  if (!post()) throw verbs_error("device", "ibv_post_srq_recv", 0, failure_);
  ++connections_;
  share = {};
  share.ceiling = std::max(ceiling, guaranteed_data_slots);
  share.window = share.quota = guaranteed_data_slots;
}

void receive_pool::leave(pool_share& share, uint32_t queue_pair_number, handle by) noexcept {
  for (handle& holder : holders_) {
    if (holder.value() != by.value()) continue;
    holder = orphaned;
    ++orphans_;
  }
  // A new queue pair may have the number already: the device gives it away before this connection leaves.
  const auto user = users_.find(queue_pair_number);
  if (user != users_.end() && user->second.value() == by.value()) users_.erase(user);
  set_quota(share, 0);
  --connections_;
}

handle receive_pool::user_of(uint32_t queue_pair_number) const noexcept {
  const auto user = users_.find(queue_pair_number);
  return user == users_.end() ? handle() : user->second;
}

void receive_pool::arrived(uint32_t slot, handle by) noexcept {
  --posted_;
  holders_[slot] = by;
}

void receive_pool::give_back(uint32_t slot) {
  holders_[slot] = handle();
  free_.push_back(slot);
}

void receive_pool::give_back_late(uint32_t slot, handle by) {
  if (is_held_by(slot, orphaned)) --orphans_;
  else if (!is_held_by(slot, by)) return;
  give_back(slot);
}

bool receive_pool::post() {
  if (has_failed()) return false;
  if (free_.empty()) return true;
  const size_t count = free_.size();
  requests_.resize(std::max(requests_.size(), count));
  pieces_.resize(requests_.size());
  for (size_t i = 0; i < count; ++i) {
    pieces_[i] = {reinterpret_cast<uintptr_t>(slot(free_[i])), sizes_.slot_bytes, region_->lkey()};
    requests_[i] = {};
    requests_[i].wr_id = work_id{handle::from_value(number_), work_kind::shared_receive, free_[i]}.encode();
    requests_[i].sg_list = &pieces_[i];
    requests_[i].num_sge = 1;
    requests_[i].next = i + 1 < count ? &requests_[i + 1] : nullptr;
  }
  ibv_recv_wr* refused = nullptr;
  const int error_number = queue_->post(requests_.data(), refused);
  const size_t done = error_number == 0 || refused == nullptr ? (error_number == 0 ? count : 0)
                                                              : static_cast<size_t>(refused - requests_.data());
  posted_ += static_cast<uint32_t>(done);
  free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(done));
  if (low_ && posted_ >= 2 * low_mark(sizes_.slots)) {
    low_ = false;
    queue_->warn_below(low_mark(sizes_.slots));
  }
  if (error_number == 0) return true;
  fail(call_failed("ibv_post_srq_recv", error_number).what());
  return false;
}

void receive_pool::set_quota(pool_share& share, uint32_t quota) noexcept {
  const uint32_t before = lent(share);
  share.quota = quota;
  const uint32_t after = lent(share);
  lent_ = lent_ - before + after;
  borrowers_ = borrowers_ - (before > 0 ? 1 : 0) + (after > 0 ? 1 : 0);
}

uint32_t receive_pool::equal_part(const pool_share& share) const noexcept {
  const uint32_t to_lend = sizes_.slots - sizes_.connections * slots_per_connection;
  return to_lend / std::max(1u, borrowers_ + (lent(share) == 0 ? 1 : 0));
}

bool receive_pool::used_credit(pool_share& share, uint32_t left) const noexcept {
  if (++share.received < share.window && left > 0) return false;
  share.received = 0;
  share.window = std::min(share.window * 2, share.ceiling);
  return true;
}

uint32_t receive_pool::refill(pool_share& share, uint32_t returned) noexcept {
  set_quota(share, share.quota - returned);
  const uint32_t to_lend = sizes_.slots - sizes_.connections * slots_per_connection;
  const uint32_t before = share.quota;
  uint32_t quota = std::max(before, guaranteed_data_slots);
  const uint32_t wanted = std::min(share.window, guaranteed_data_slots + equal_part(share));
  const uint32_t in_use = lent_ + orphans_;
  const uint32_t available = to_lend > in_use ? to_lend - in_use : 0;
  if (wanted > quota) quota += std::min(wanted - quota, available);
  set_quota(share, quota);
  return quota - before;
}

void receive_pool::take_back(pool_share& share, uint32_t credits) noexcept {
  set_quota(share, share.quota - credits);
  share.window = guaranteed_data_slots;
  share.received = 0;
}

void receive_pool::was_low() noexcept {
  low_ = true;
  ++ran_low_;
}

}  // namespace verbmq
