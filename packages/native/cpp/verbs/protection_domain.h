// Protection domain and the memory regions in it.
#pragma once

#include <memory>

#include "verbs/device_context.h"

namespace verbmq {

class protection_domain {
 public:
  explicit protection_domain(std::shared_ptr<device_context> context);
  ~protection_domain();
  protection_domain(const protection_domain&) = delete;
  protection_domain& operator=(const protection_domain&) = delete;

  ibv_pd* get() const noexcept { return pd_; }
  const verbs_library& library() const noexcept { return context_->library(); }

 private:
  std::shared_ptr<device_context> context_;
  ibv_pd* pd_;
};

/// Pinned memory with its keys. The bytes belong to whoever allocated them and must outlive this object.
class memory_region {
 public:
  /// `access` is a set of IBV_ACCESS_ flags: give the least that the use needs.
  /// Throws verbs_error: "memlock" when RLIMIT_MEMLOCK is the likely cause, else "no-resources" or "verbs".
  memory_region(std::shared_ptr<protection_domain> domain, void* address, size_t bytes, int access);
  ~memory_region();
  memory_region(const memory_region&) = delete;
  memory_region& operator=(const memory_region&) = delete;

  uint32_t lkey() const noexcept { return region_->lkey; }
  uint32_t rkey() const noexcept { return region_->rkey; }

 private:
  std::shared_ptr<protection_domain> domain_;
  ibv_mr* region_;
};

}  // namespace verbmq
