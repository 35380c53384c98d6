#include "verbs/mapping_guard.h"

#include <cerrno>
#include <utility>

#include "verbs/shared_by_context.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// An entry is 32 bytes long, so the queue is mapped from 0 to 0x100000.
constexpr int guard_entries = 32768;

}  // namespace

std::shared_ptr<mapping_guard> mapping_guard::of(const std::shared_ptr<device_context>& context) {
  if (!is_soft_iwarp(context->attributes())) return nullptr;
  return shared_by_context<mapping_guard>(context);
}

mapping_guard::mapping_guard(std::shared_ptr<device_context> context) : context_(std::move(context)) {
  errno = 0;
  queue_ = context_->library().create_cq(context_->get(), guard_entries, nullptr, nullptr, 0);
  if (queue_ == nullptr) throw call_failed("ibv_create_cq", errno != 0 ? errno : EIO, "guard of siw's mappings");
}

mapping_guard::~mapping_guard() { context_->library().destroy_cq(queue_); }

}  // namespace verbmq
