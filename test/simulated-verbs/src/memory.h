// Which memory a key stands for, and who may do what with it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "objects.h"

namespace simverbs {

/// True when every piece lies in a region of the domain that has all of `access`. The lock is held.
bool local_access_holds(const std::vector<ibv_sge>& pieces, const ibv_pd* domain, unsigned access);

/// The bytes a peer addresses on `responder`, or nullptr when key, bounds, domain or access are not right.
/// `access` is one IBV_ACCESS_REMOTE_ flag.
uint8_t* remote_bytes(const queue_pair* responder, uint32_t rkey, uint64_t address, uint64_t bytes, unsigned access);

/// Binds a type 2 window on behalf of a work request; the status of that request.
ibv_wc_status bind_window(queue_pair* pair, memory_window* window, uint32_t rkey, const ibv_mw_bind_info& to);
/// Ends the remote access of a window that belongs to the queue pair; false when there is no such key.
bool invalidate_window(const queue_pair* pair, uint32_t rkey);

}  // namespace simverbs
