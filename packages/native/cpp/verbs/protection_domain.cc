#include "verbs/protection_domain.h"

#include <cerrno>
#include <string>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

protection_domain::protection_domain(std::shared_ptr<device_context> context)
    : context_(std::move(context)), pd_(nullptr) {
  errno = 0;
  pd_ = library().alloc_pd(context_->get());
  if (pd_ == nullptr) throw call_failed("ibv_alloc_pd", errno != 0 ? errno : EIO);
}

protection_domain::~protection_domain() { library().dealloc_pd(pd_); }

memory_region::memory_region(std::shared_ptr<protection_domain> domain, void* address, size_t bytes, int access)
    : domain_(std::move(domain)), region_(nullptr) {
  errno = 0;
  region_ = domain_->library().reg_mr(domain_->get(), address, bytes, access);
  if (region_ == nullptr) {
    throw call_failed("ibv_reg_mr", errno != 0 ? errno : EIO, std::to_string(bytes / 1024) + " KiB");
  }
}

memory_region::~memory_region() { domain_->library().dereg_mr(region_); }

}  // namespace verbmq
