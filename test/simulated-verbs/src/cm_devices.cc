// The devices as librdmacm has them: opened once a process, when the first id needs one, and kept open, until the device
// is gone and no id needs it.
#include <cerrno>
#include <cstdlib>

#include "cm_connection.h"
#include "device_operations.h"
#include "world.h"

using namespace simverbs;

namespace simverbs {

namespace {

bool is_needed(const device* owner) {
  if (owner->cm_holders > 0) return true;
  for (const auto& [handle, id] : the_world().cm_ids) {
    if (id->verbs != nullptr && id->verbs == owner->cm_context) return true;
  }
  return false;
}

void open_for_ids(device* owner) {
  if (owner->cm_context != nullptr) return;
  owner->cm_context = open_context(owner);
  auto* domain = new protection_domain();
  domain->context = owner->cm_context;
  owner->cm_domain = domain;
}

}  // namespace

void take_device(cm_id* id) {
  device* owner = main_device();
  open_for_ids(owner);
  id->verbs = owner->cm_context;
  id->pd = owner->cm_domain;
  id->port_num = 1;
}

void close_unused_device(ibv_context* context) {
  if (context == nullptr) return;
  device* owner = device_of(context);
  if (!owner->removed || the_world().set.removed_device_listed) return;
  if (owner->cm_context != context || is_needed(owner)) return;
  device_context* opened = extended(context);
  if (opened->children != 0) misuse("verbs objects are left on a device that librdmacm closes");
  delete static_cast<protection_domain*>(owner->cm_domain);
  owner->cm_domain = nullptr;
  owner->cm_context = nullptr;
  ++the_world().counts["closed-devices"];
  owner->contexts.erase(opened);
  pthread_mutex_destroy(&context->mutex);
  delete opened;
}

}  // namespace simverbs

extern "C" {

ibv_context** rdma_get_devices(int* count) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  device* owner = main_device();
  const int error_number = call_fails("rdma_get_devices");
  if (error_number == 0 && owner->removed) close_unused_device(owner->cm_context);
  const bool listed = !owner->removed || (w.set.removed_device_listed && owner->cm_context != nullptr);
  if (error_number != 0 || (!listed && !w.set.decoy_devices)) {
    // Without a device, or when one cannot be opened, there is no list at all.
    errno = error_number != 0 ? error_number : ENODEV;
    if (count != nullptr) *count = 0;
    return nullptr;
  }
  auto** list = static_cast<ibv_context**>(std::calloc(2, sizeof(ibv_context*)));
  if (listed) {
    open_for_ids(owner);
    ++owner->cm_holders;
    list[0] = owner->cm_context;
  }
  if (count != nullptr) *count = listed ? 1 : 0;
  return list;
}

void rdma_free_devices(ibv_context** list) {
  lock_guard lock(the_world().mutex);
  if (list[0] != nullptr) {
    --device_of(list[0])->cm_holders;
    close_unused_device(list[0]);
  }
  std::free(list);
}

}  // extern "C"
