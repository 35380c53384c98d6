// Two connected ends in one process, made with plain verbs and rdma_cm as any application would.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "check.h"
#include "simulated_verbs.h"

/// The errno with which work was refused, or 0. Checks that it was said as the drivers of this kind of device do.
int refused_with(const ibv_qp* pair, int result);

struct endpoint_options {
  uint32_t depth = 16;
  int cq_entries = 64;
  uint32_t inline_bytes = 64;
  uint8_t reads = 4;
  uint8_t rnr_retry = 7;
  uint8_t retries = 7;
  uint32_t shared_receives = 0;  // places of a shared receive queue; 0: the queue pair has receives of its own
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
};

/// One end: an id with its queue pair, one completion queue and one region of memory.
struct endpoint {
  static constexpr size_t buffer_bytes = 64 * 1024;

  explicit endpoint(endpoint_options how = {}) : options(how), buffer(buffer_bytes) {}
  /// Makes the verbs objects on the id's device.
  void make_queue_pair(rdma_cm_id* of);
  /// Frees everything, the id included, and checks every answer.
  void destroy();

  void post_receive(uint64_t wr_id, size_t offset, uint32_t bytes);
  int try_send(uint64_t wr_id, size_t offset, uint32_t bytes, unsigned flags = IBV_SEND_SIGNALED);
  void send(uint64_t wr_id, size_t offset, uint32_t bytes, unsigned flags = IBV_SEND_SIGNALED);
  ibv_sge piece(size_t offset, uint32_t bytes) const;
  /// Polls until a completion is there.
  ibv_wc wait();
  /// Nothing to poll now.
  bool quiet();
  void arm() { CHECK_EQUAL(ibv_req_notify_cq(cq, 0), 0); }
  /// Waits for one completion event and acknowledges it.
  void wait_for_event();

  endpoint_options options;
  std::vector<uint8_t> buffer;
  rdma_cm_id* id = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* shared = nullptr;
};

/// An event that has been read, copied and acknowledged.
struct seen_event {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  rdma_conn_param parameters;
  std::vector<uint8_t> private_data;
};
seen_event next_event(rdma_event_channel* channel);
/// As next_event, and checks its type.
seen_event expect_event(rdma_event_channel* channel, rdma_cm_event_type type);

/// A listener on a port of its own and a connection to it. The active end has one receive posted, the passive one eight.
struct connection {
  explicit connection(endpoint_options active_options = {}, endpoint_options passive_options = {});
  ~connection();
  /// Takes both ends down in order.
  void disconnect();

  rdma_event_channel* events;
  rdma_cm_id* listener;
  endpoint active;
  endpoint passive;
  uint32_t qp_num_of_active() const { return active.id->qp->qp_num; }
};

rdma_cm_id* listen_on_loopback(rdma_event_channel* events, uint16_t port = 0);
/// An id whose route to the listener is resolved.
rdma_cm_id* resolve_to(rdma_event_channel* events, rdma_cm_id* listener);
rdma_conn_param connection_parameters(const endpoint_options& options);
/// Every object is gone.
void check_nothing_lives();
