// The functions that a context offers to verbs.h instead of symbols, and the opening of a context.
#pragma once

#include "objects.h"

namespace simverbs {

/// The lock is held.
ibv_context* open_context(device* owner);

// These take the lock.
int poll_cq(ibv_cq* plain, int capacity, ibv_wc* entries);
int req_notify_cq(ibv_cq* plain, int solicited_only);
int post_send(ibv_qp* plain, ibv_send_wr* first, ibv_send_wr** bad);
int post_recv(ibv_qp* plain, ibv_recv_wr* first, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* plain, ibv_recv_wr* first, ibv_recv_wr** bad);
ibv_mw* alloc_mw(ibv_pd* domain, ibv_mw_type type);
int dealloc_mw(ibv_mw* plain);
int bind_mw(ibv_qp* pair, ibv_mw* window, ibv_mw_bind* bind);

}  // namespace simverbs
