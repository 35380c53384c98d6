// The engine's pools of receive slots that connections share, and the ends of those connections.
#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/engine.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// How long a device has to say that a queue pair in error takes no more receives. Some never say it (Soft-RoCE, Soft-iWARP); what
// those have taken is flushed well within this time.
constexpr std::chrono::milliseconds drain_time{10};

}  // namespace

std::shared_ptr<receive_pool> engine::find_pool(uint32_t number) const {
  const auto found = pools_.find(number);
  return found == pools_.end() ? nullptr : found->second.lock();
}

uint32_t engine::join_receive_pool(handle request) {
  connection* of = find(request);
  if (of == nullptr || of->phase() != connection_phase::requested) return 0;
  for (auto each = pools_.begin(); each != pools_.end();) {
    const auto pool = each->second.lock();
    if (!pool) {
      each = pools_.erase(each);
      continue;
    }
    if (pool->is_on(of->id().verbs()) && !pool->has_failed()) {
      of->share_receives(pool);
      return pool->number();
    }
    ++each;
  }
  return 0;
}

uint32_t engine::make_receive_pool(handle request, const receive_pool_sizes& sizes, uint8_t* base,
                                   std::shared_ptr<void> owner) {
  connection* of = find(request);
  if (of == nullptr || of->phase() != connection_phase::requested) {
    throw verbs_error("lost", "ibv_create_srq", 0, "the request has ended");
  }
  const uint32_t number = ++last_pool_;
  auto made = std::make_shared<receive_pool>(number, *device_of(of->id()), sizes, base, std::move(owner));
  pools_[number] = made;
  of->share_receives(std::move(made));
  return number;
}

engine::receive_pool_totals engine::shared_receive_totals() const {
  receive_pool_totals totals;
  for (const auto& [number, shared] : pools_) {
    const auto pool = shared.lock();
    if (!pool) continue;
    totals.slots += pool->sizes().slots;
    totals.posted_slots += pool->posted();
    totals.lent_slots += pool->lent();
    totals.connections += pool->connections();
    totals.ran_low += pool->ran_low();
  }
  return totals;
}

// What failed completions and messages of ended connections have given back.
void engine::post_pools() {
  for (const auto& [number, shared] : pools_) {
    const auto pool = shared.lock();
    if (pool && !pool->post()) fail_pool(pool, pool->failure());
  }
}

void engine::release_late(uint32_t pool, handle by, uint32_t slot) {
  if (const auto shared = find_pool(pool)) shared->give_back_late(slot, by);
}

void engine::handle_pool_event(const device_event& event) {
  for (const auto& [number, shared] : pools_) {
    const auto pool = shared.lock();
    if (!pool || !pool->is_queue(event.subject)) continue;
    if (event.type == IBV_EVENT_SRQ_LIMIT_REACHED) {
      pool->was_low();
      continue;
    }
    fail_pool(pool, "the shared receive queue failed");
  }
}

void engine::fail_pool(const std::shared_ptr<receive_pool>& failed, const std::string& why) {
  failed->fail(why);
  for (const entry& each : entries_) {
    if (each.peer && each.peer->pool() == failed) doom(*each.peer, failure{"device", why});
  }
}

// A queue pair may have taken receives that are not complete. Destroyed at once it could keep them for itself, and the pool
// would shrink with each connection that ends. In the error state it completes them, and says so when it has.
bool engine::drain(connection& of) {
  if (!of.pool() || !of.has_queue_pair() || of.drained) return false;
  if (!of.drained_by) {
    of.id().disconnect();
    of.drained_by = std::chrono::steady_clock::now() + drain_time;
    draining_.push_back(of.self());
  }
  return true;
}

void engine::was_drained(object_name queue_pair) {
  for (const handle each : draining_) {
    connection* of = find(each);
    if (of != nullptr && of->id().stands_on(queue_pair)) of->drained = true;
  }
}

bool engine::take_drained() {
  if (draining_.empty()) return false;
  const auto now = std::chrono::steady_clock::now();
  const auto drained = std::partition(draining_.begin(), draining_.end(), [&](const handle each) {
    connection* of = find(each);
    if (of == nullptr) return false;
    of->drained = of->drained || now >= *of->drained_by;
    return !of->drained;
  });
  doomed_.insert(doomed_.end(), drained, draining_.end());
  draining_.erase(drained, draining_.end());
  return !doomed_.empty();
}

}  // namespace verbmq
