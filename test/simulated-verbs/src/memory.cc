// Protection domains, memory regions and memory windows.
#include "memory.h"

#include <cerrno>

#include "device_operations.h"
#include "world.h"

using namespace simverbs;

namespace simverbs {

namespace {

bool inside(uint64_t address, uint64_t bytes, uint64_t start, uint64_t length) {
  return address >= start && bytes <= length && address - start <= length - bytes;
}

uint64_t start_of(const memory_region* region) { return reinterpret_cast<uint64_t>(region->addr); }

}  // namespace

bool local_access_holds(const std::vector<ibv_sge>& pieces, const ibv_pd* domain, unsigned access) {
  world& w = the_world();
  for (const ibv_sge& piece : pieces) {
    if (piece.length == 0) continue;
    const auto found = w.by_lkey.find(piece.lkey);
    if (found == w.by_lkey.end()) return false;
    const memory_region* region = found->second;
    if (region->pd != domain || (region->access & access) != access) return false;
    if (!inside(piece.addr, piece.length, start_of(region), region->length)) return false;
  }
  return true;
}

uint8_t* remote_bytes(const queue_pair* responder, uint32_t rkey, uint64_t address, uint64_t bytes, unsigned access) {
  world& w = the_world();
  if ((responder->attributes.qp_access_flags & access) == 0) return nullptr;
  if (const auto found = w.by_rkey.find(rkey); found != w.by_rkey.end()) {
    const memory_region* region = found->second;
    if (region->pd != responder->pd || (region->access & access) == 0) return nullptr;
    if (!inside(address, bytes, start_of(region), region->length)) return nullptr;
    return reinterpret_cast<uint8_t*>(address);
  }
  if (const auto found = w.windows_by_rkey.find(rkey); found != w.windows_by_rkey.end()) {
    const memory_window* window = found->second;
    if (window->region == nullptr || window->pd != responder->pd || (window->access & access) == 0) return nullptr;
    if (window->type == IBV_MW_TYPE_2 && window->queue_pair != responder->qp_num) return nullptr;
    if (!inside(address, bytes, window->start, window->bytes)) return nullptr;
    return reinterpret_cast<uint8_t*>(address);
  }
  return nullptr;
}

ibv_wc_status bind_window(queue_pair* pair, memory_window* window, uint32_t rkey, const ibv_mw_bind_info& to) {
  world& w = the_world();
  auto* region = static_cast<memory_region*>(to.mr);
  const bool allowed = window->region == nullptr && region != nullptr && region->pd == window->pd &&
                       window->pd == pair->pd && (region->access & IBV_ACCESS_MW_BIND) != 0 &&
                       inside(to.addr, to.length, start_of(region), region->length) &&
                       // A window gives a peer nothing that the owner itself does not have.
                       ((to.mw_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) == 0 ||
                        (region->access & IBV_ACCESS_LOCAL_WRITE) != 0);
  if (!allowed) return IBV_WC_MW_BIND_ERR;
  w.windows_by_rkey.erase(window->rkey);
  window->rkey = rkey;
  window->region = region;
  window->start = to.addr;
  window->bytes = to.length;
  window->access = to.mw_access_flags;
  window->queue_pair = pair->qp_num;
  ++region->windows;
  w.windows_by_rkey[rkey] = window;
  return IBV_WC_SUCCESS;
}

bool invalidate_window(const queue_pair* pair, uint32_t rkey) {
  const auto found = the_world().windows_by_rkey.find(rkey);
  if (found == the_world().windows_by_rkey.end()) return false;
  memory_window* window = found->second;
  if (window->region == nullptr || window->queue_pair != pair->qp_num) return false;
  --window->region->windows;
  window->region = nullptr;
  return true;
}

ibv_mw* alloc_mw(ibv_pd* domain, ibv_mw_type type) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  int error_number = call_fails("ibv_alloc_mw");
  if (error_number == 0 && (!w.set.memory_windows || type != IBV_MW_TYPE_2)) error_number = EOPNOTSUPP;
  if (error_number != 0) {
    errno = error_number;
    return nullptr;
  }
  auto* window = new memory_window();
  window->context = domain->context;
  window->pd = domain;
  window->type = type;
  window->handle = w.next_handle();
  // The low byte of a window's key is the application's to change at each bind.
  window->rkey = (window->handle << 8) | 3;
  w.windows_by_rkey[window->rkey] = window;
  ++static_cast<protection_domain*>(domain)->children;
  ++w.live["mw"];
  return window;
}

int dealloc_mw(ibv_mw* plain) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_dealloc_mw")) return error_number;
  auto* window = static_cast<memory_window*>(plain);
  if (window->region != nullptr) --window->region->windows;
  w.windows_by_rkey.erase(window->rkey);
  --static_cast<protection_domain*>(window->pd)->children;
  --w.live["mw"];
  delete window;
  return 0;
}

// Windows of type 1 are bound by this; no personality has them.
int bind_mw(ibv_qp*, ibv_mw*, ibv_mw_bind*) { return EOPNOTSUPP; }

}  // namespace simverbs

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  int error_number = call_fails("ibv_alloc_pd");
  if (error_number == 0 && device_of(context)->removed) error_number = EIO;
  if (error_number == 0 && w.live["pd"] >= w.set.max_pd) error_number = ENOMEM;
  if (error_number != 0) {
    errno = error_number;
    return nullptr;
  }
  auto* domain = new protection_domain();
  domain->context = context;
  domain->handle = w.next_handle();
  ++extended(context)->children;
  ++w.live["pd"];
  return domain;
}

int ibv_dealloc_pd(ibv_pd* plain) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_dealloc_pd")) return error_number;
  auto* domain = static_cast<protection_domain*>(plain);
  if (domain->children != 0) {
    ++w.counts["busy"];
    return EBUSY;
  }
  --extended(domain->context)->children;
  --w.live["pd"];
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t bytes, int access) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  constexpr unsigned write_by_peer = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  int error_number = call_fails("ibv_reg_mr");
  if (error_number != 0) {
  } else if (device_of(domain->context)->removed) {
    error_number = EIO;
  } else if (bytes == 0 || ((access & write_by_peer) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    error_number = EINVAL;
  } else if (w.live["mr"] >= w.set.max_mr || !pin(bytes)) {
    error_number = ENOMEM;
  }
  if (error_number != 0) {
    errno = error_number;
    return nullptr;
  }
  auto* region = new memory_region();
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = bytes;
  region->handle = w.next_handle();
  // Different on purpose: many devices give equal keys, and then a mix-up stays hidden.
  region->lkey = (region->handle << 8) | 1;
  region->rkey = (region->handle << 8) | 2;
  region->access = static_cast<unsigned>(access);
  w.by_lkey[region->lkey] = region;
  w.by_rkey[region->rkey] = region;
  ++static_cast<protection_domain*>(domain)->children;
  ++w.live["mr"];
  return region;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, size_t bytes, uint64_t iova, unsigned int access) {
  if (iova != reinterpret_cast<uint64_t>(address)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return ibv_reg_mr(domain, address, bytes, static_cast<int>(access & ~IBV_ACCESS_OPTIONAL_RANGE));
}

int ibv_dereg_mr(ibv_mr* plain) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_dereg_mr")) return error_number;
  auto* region = static_cast<memory_region*>(plain);
  if (region->windows != 0) {
    ++w.counts["busy"];
    return EBUSY;
  }
  unpin(region->length);
  w.by_lkey.erase(region->lkey);
  w.by_rkey.erase(region->rkey);
  --static_cast<protection_domain*>(region->pd)->children;
  --w.live["mr"];
  delete region;
  return 0;
}

}  // extern "C"
