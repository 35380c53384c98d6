// The engine's devices: opened with the first connection over them, given back with the last, and lost in between.
#include <utility>

#include "engine/engine.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// More than ever wait in earnest; a device that reports without end must not fill the memory.
constexpr size_t most_notices = 64;

// A device is off the list milliseconds after it was taken away, or seconds on a busy machine. Each time is twice the one before, ten
// seconds in all.
constexpr uint32_t first_ask_again_ms = 20;
constexpr uint32_t last_ask_again_ms = 5120;

}  // namespace

// librdmacm closes a device that is gone as soon as no identifier needs it. A connection lets go of these resources
// before its identifier, so nothing is left behind on a device that is closed.
std::shared_ptr<device_resources> engine::device_of(const cm_id& id) {
  ibv_context* context = id.verbs();
  const auto known = devices_.find(context);
  if (known != devices_.end()) return known->second->shared_from_this();
  std::shared_ptr<device_resources> opened(
      new device_resources(std::make_shared<device_context>(library_, context)),
      [context, wanted = std::weak_ptr<engine*>(self_)](device_resources* unused) {
        if (const auto still = wanted.lock()) (*still)->devices_.erase(context);
        delete unused;
      });
  opened->hold(host_.watch(opened->channel().fd(), engine_host::readable::completions));
  opened->hold(host_.watch(opened->event_fd(), engine_host::readable::device_events));
  devices_.emplace(context, opened.get());
  return opened;
}

void engine::handle_device_events() {
  for (const auto& [context, device] : devices_) {
    for (const device_event& event : device->take_events()) handle_device_event(*device, event);
  }
}

void engine::handle_device_event(device_resources& device, const device_event& event) {
  const std::string name = device_event_name(event.type);
  if (event.type == IBV_EVENT_DEVICE_FATAL) return lose_device(device.context().get(), name);
  if (event.type == IBV_EVENT_QP_LAST_WQE_REACHED) return was_drained(event.subject);
  notify(device.context().get(), name, event.port);
  switch (event.type) {
    case IBV_EVENT_CQ_ERR:
      device.retire(event.subject);
      return fail_users_of(event.subject, {"device", "the completion queue failed"});
    case IBV_EVENT_QP_FATAL:
      // So Soft-iWARP reports that the TCP connection below was reset, which is the peer's doing and not the device's.
      if (device.context().is_iwarp()) {
        return lose_users_of(event.subject, {"lost", "the connection was lost: the TCP connection below it was reset"});
      }
      return fail_users_of(event.subject, {"device", "the queue pair failed"});
    case IBV_EVENT_QP_REQ_ERR:
      // So Soft-iWARP reports that it could not answer a read: of memory that was revoked, or when TCP was reset meanwhile. Of a
      // write that it refuses it says nothing at all.
      if (is_soft_iwarp(device.attributes())) {
        return lose_users_of(event.subject, {"lost",
                                             "the connection was lost: the peer read memory that had been revoked, or the "
                                             "TCP connection below was reset while it read"});
      }
      return fail_users_of(event.subject, {"protocol", "the device refused a malformed request of the peer"});
    case IBV_EVENT_QP_ACCESS_ERR:
      return fail_users_of(event.subject,
                           {"remote-access", "the device refused the peer an access to the memory of this side"});
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_SRQ_ERR:
      return handle_pool_event(event);
    default:
      // Ports that come and go end nothing by themselves: the peer may answer before the retries are over.
      return;
  }
}

void engine::fail_users_of(object_name queue, const failure& why) {
  for (const auto& [number, shared] : pools_) {
    const auto pool = shared.lock();
    if (pool && pool->completes_on(queue)) fail_pool(pool, why.message);
  }
  for (const entry& each : entries_) {
    if (each.peer && each.peer->id().stands_on(queue)) doom(*each.peer, why);
  }
}

void engine::lose_users_of(object_name queue, const failure& why) {
  for (const entry& each : entries_) {
    if (each.peer && each.peer->id().stands_on(queue)) lose(*each.peer, why);
  }
}

void engine::fail_queues(device_resources& device) {
  for (const auto& [queue, why] : device.take_failed_queues()) fail_users_of(queue, {why.reason(), why.what()});
}

failure engine::lost_device(ibv_context* context) const {
  const std::string name = context == nullptr ? "" : " " + device_context(library_, context).name();
  return {"device-lost", "the RDMA device" + name + " was removed or has failed"};
}

void engine::lose_device(ibv_context* context, const std::string& event) {
  if (context == nullptr) return;
  notify(context, event);
  lost_devices_.insert(context);
  const failure why = lost_device(context);
  for (const entry& each : entries_) {
    if (each.peer && each.peer->id().verbs() == context) doom(*each.peer, why);
  }
  device_may_be_gone_ = true;
}

void engine::attempt_failed() {
  device_may_be_gone_ = true;
  release_lost_devices();
}

// librdmacm keeps devices open for the life of the process, and drivers that cannot take a device away from its users
// wait for them. Asked for its devices, it closes those that are gone and that no identifier needs. It is asked also after
// attempts that failed: a device that was removed when no identifier stood on it tells nobody.
void engine::release_lost_devices() {
  if (!device_may_be_gone_) return;
  // Identifiers of what has ended may still be there.
  for (const auto& of : elsewhere_) {
    if (of->doomed) return;
  }
  device_may_be_gone_ = false;
  ask_for_devices(first_ask_again_ms);
}

// The first time may be in vain, where there are no descriptors left, say; or too early: rdma_cm tells of a removal before the
// device is off the list. Nobody tells when it is.
void engine::ask_for_devices(uint32_t again_after_ms) {
  ask_again_.reset();
  if (lost_devices_are_let_go() || again_after_ms > last_ask_again_ms) return lost_devices_.clear();
  ask_again_ = host_.after(again_after_ms, [this, again_after_ms] { ask_for_devices(2 * again_after_ms); });
}

bool engine::lost_devices_are_let_go() const {
  ibv_context** devices = library_->get_devices(nullptr);
  // Without any device there is no list either, and none is closed until there is one.
  if (devices == nullptr) return !device_list::may_name_any(library_);
  bool all = true;
  for (ibv_context** each = devices; *each != nullptr; ++each) all = all && lost_devices_.count(*each) == 0;
  library_->free_devices(devices);
  return all;
}

void engine::notify(ibv_context* context, const std::string& event, int port) {
  if (notices_.size() == most_notices) return;
  if (notices_.empty()) events_.push(event_kind::device_notice, handle());
  notices_.push_back({device_context(library_, context).name(), event, port});
}

}  // namespace verbmq
