// The receive slots that the accepted connections of one device share: a shared receive queue, its memory, and who may
// use how much of it.
//
// The peer of each connection holds credits, as with slots of its own. What keeps the device from ever having to answer
// "receiver not ready" is one sum: all credits that all peers hold never exceed the slots that are posted. For that,
//
// - each connection has `guaranteed_data_slots` + `control_slots` slots set aside for it, whatever the others do, so that no peer can
//   stop another one;
// - the rest is lent: who uses its credits up gets more of them, twice as many each time, within an equal part of
//   the rest for each that has any. What is lent comes back with use, or when an idle peer answers a ping (docs/protocol-rdma.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/device_resources.h"
#include "engine/work_id.h"
#include "verbs/cm_id.h"
#include "verbs/shared_receive_queue.h"

namespace verbmq {

struct receive_pool_sizes {
  uint32_t slot_bytes;
  uint32_t slots;
  uint32_t connections;  // the most that it serves
};

/// What one connection has of a pool.
struct pool_share {
  uint32_t quota = 0;     // data slots: credits of the peer, told or not, and slots that hold its messages
  uint32_t window = 0;    // what the quota may grow to
  uint32_t ceiling = 0;   // what the window may grow to
  uint32_t received = 0;  // messages since the window has changed
};

class receive_pool {
 public:
  /// Enough that a request and its answer never wait for the rest of the pool.
  static constexpr uint32_t guaranteed_data_slots = 4;
  static constexpr uint32_t control_slots = 4;
  static constexpr uint32_t slots_per_connection = guaranteed_data_slots + control_slots;

  /// Registers the memory and posts all of it. `owner` keeps the bytes alive. Throws verbs_error: "srq-unsupported"
  /// when the device has no such queues, or none of this size; "no-resources", "memlock".
  receive_pool(uint32_t number, device_resources& device, const receive_pool_sizes& sizes, uint8_t* base,
               std::shared_ptr<void> owner);
  receive_pool(const receive_pool&) = delete;
  receive_pool& operator=(const receive_pool&) = delete;

  /// None of its connections receives anything any more, and the slots are nobody's.
  void let_go_of_memory() noexcept {
    region_.reset();
    owner_.reset();
  }

  /// Names it for JavaScript and in work ids.
  uint32_t number() const noexcept { return number_; }
  uint8_t* slot(uint32_t slot) const noexcept { return base_ + static_cast<size_t>(slot) * sizes_.slot_bytes; }
  const receive_pool_sizes& sizes() const noexcept { return sizes_; }
  size_t bytes() const noexcept { return static_cast<size_t>(sizes_.slots) * sizes_.slot_bytes; }
  uint32_t connections() const noexcept { return connections_; }
  uint32_t posted() const noexcept { return posted_; }
  uint32_t lent() const noexcept { return lent_; }
  uint32_t ran_low() const noexcept { return ran_low_; }
  bool is_on(const ibv_context* device) const noexcept { return device == context_; }
  bool is_queue(object_name subject) const noexcept { return queue_->is(subject); }
  bool completes_on(object_name queue) const noexcept { return reservation_->queue()->name() == queue; }

  /// The protection domain for a connection: its own, so that no key of one peer opens what belongs to another; or the
  /// pool's, where the device looks for the memory of shared receives in the domain of the queue pair.
  std::shared_ptr<protection_domain> domain_for(device_resources& device) const;
  receive_side receives() const { return {queue_->get(), queue_, reservation_->queue()}; }

  // A connection, from before its queue pair is created until after it is destroyed.
  /// Throws verbs_error "receive-pool-full".
  void join(pool_share& share, uint32_t ceiling);
  void use(uint32_t queue_pair_number, handle by) { users_[queue_pair_number] = by; }
  /// What the application still holds of `by`'s messages comes back later.
  void leave(pool_share& share, uint32_t queue_pair_number, handle by) noexcept;
  /// Who has the queue pair; a handle of 0 when it is gone.
  handle user_of(uint32_t queue_pair_number) const noexcept;

  // A slot, from its completion until it is posted again.
  /// A message has arrived in it: it is `by`'s until given back.
  void arrived(uint32_t slot, handle by) noexcept;
  bool is_held_by(uint32_t slot, handle by) const noexcept {
    return slot < sizes_.slots && holders_[slot].value() == by.value() && by.value() != 0;
  }
  /// Nobody needs the content any more.
  void give_back(uint32_t slot);
  /// JavaScript lets go of a message of `by`'s, which is ending or has ended. Anything else is ignored.
  void give_back_late(uint32_t slot, handle by);
  /// Posts what was given back. False when the device refuses: the pool has failed.
  bool post();
  /// It is of no more use, and those that share it end; another one takes its place. The first reason counts.
  void fail(std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
  }
  bool has_failed() const noexcept { return !failure_.empty(); }
  const std::string& failure() const noexcept { return failure_; }

  /// A message has used a credit, and the peer has `left` more. True when it has used as many as its window has, or all, and
  /// may be lent more.
  bool used_credit(pool_share& share, uint32_t left) const noexcept;
  /// After `returned` slots of the connection's were posted again: how many credits its peer gets.
  uint32_t refill(pool_share& share, uint32_t returned) noexcept;
  /// The peer gives back credits that it does not use.
  void take_back(pool_share& share, uint32_t credits) noexcept;

  /// The device has warned. It warns again when the queue has recovered in between.
  void was_low() noexcept;

 private:
  uint32_t lent(const pool_share& share) const noexcept {
    return share.quota > guaranteed_data_slots ? share.quota - guaranteed_data_slots : 0;
  }
  void set_quota(pool_share& share, uint32_t quota) noexcept;
  uint32_t equal_part(const pool_share& share) const noexcept;

  const uint32_t number_;
  const receive_pool_sizes sizes_;
  uint8_t* const base_;
  const ibv_context* const context_;
  std::shared_ptr<void> owner_;
  std::shared_ptr<protection_domain> domain_;
  std::unique_ptr<device_resources::reservation> reservation_;
  std::unique_ptr<memory_region> region_;
  std::shared_ptr<shared_receive_queue> queue_;

  std::unordered_map<uint32_t, handle> users_;
  std::vector<handle> holders_;  // by slot; 0 when it is posted or waits to be, `orphaned` when its connection has left
  std::vector<uint32_t> free_;
  std::vector<ibv_recv_wr> requests_;
  std::vector<ibv_sge> pieces_;
  uint32_t posted_ = 0;
  uint32_t connections_ = 0;
  uint32_t borrowers_ = 0;  // connections to which something is lent
  uint32_t lent_ = 0;       // beyond what is guaranteed, of all connections
  uint32_t orphans_ = 0;    // slots that JavaScript holds of connections that have left
  bool low_ = false;
  uint32_t ran_low_ = 0;
  std::string failure_;
};

}  // namespace verbmq
