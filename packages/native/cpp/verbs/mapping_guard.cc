#include "verbs/mapping_guard.h"

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// Vendor that siw reports: "bmt" (drivers/infiniband/sw/siw/siw.h in Linux).
constexpr uint32_t siw_vendor_id = 0x626d74;

// An entry is 32 bytes long, so the queue is mapped from 0 to 0x100000.
constexpr int guard_entries = 32768;

// Worker threads have engines of their own, and share the contexts that librdmacm opened.
std::mutex guards_mutex;
std::map<ibv_context*, std::weak_ptr<mapping_guard>> guards;

}  // namespace

std::shared_ptr<mapping_guard> mapping_guard::of(const std::shared_ptr<device_context>& context) {
  if (context->attributes().vendor_id != siw_vendor_id) return nullptr;
  const std::lock_guard<std::mutex> locked(guards_mutex);
  std::weak_ptr<mapping_guard>& known = guards[context->get()];
  std::shared_ptr<mapping_guard> guard = known.lock();
  if (!guard) {
    guard = std::make_shared<mapping_guard>(context);
    known = guard;
  }
  return guard;
}

mapping_guard::mapping_guard(std::shared_ptr<device_context> context) : context_(std::move(context)) {
  errno = 0;
  queue_ = context_->library().create_cq(context_->get(), guard_entries, nullptr, nullptr, 0);
  if (queue_ == nullptr) throw call_failed("ibv_create_cq", errno != 0 ? errno : EIO, "guard of siw's mappings");
}

mapping_guard::~mapping_guard() { context_->library().destroy_cq(queue_); }

}  // namespace verbmq
