// What stands behind rdma_cm_id, rdma_event_channel and rdma_cm_event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rdma/rdma_cma.h>

#include "event_pipe.h"

namespace simverbs {

/// What the "kernel" reports. The library part turns it into an rdma_cm_event when the application reads it.
struct cm_report {
  uint32_t id = 0;  // handle of the id whose events it counts as (of a connection request: the listener)
  rdma_cm_event_type type{};
  int status = 0;
  uint32_t requested = 0;  // of a connection request: the new id
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t rnr_retry_count = 0;
  uint32_t qp_num = 0;
  std::vector<uint8_t> private_data;
};

struct cm_channel : rdma_event_channel {
  event_pipe<cm_report> reports;
  int ids = 0;
};

enum class cm_state {
  idle,
  bound,
  resolving_address,
  address_resolved,
  resolving_route,
  route_resolved,
  connecting,    // request sent
  answered,      // active: the answer is here and the application has not read it
  listening,
  requested,     // passive: request here
  accepted,      // passive: answer sent
  connected,
  disconnected,
  removed,       // the device is gone
};

/// The state of that name, "address-resolved" say; nothing for a name that is none.
std::optional<cm_state> cm_state_named(const std::string& name);

struct cm_id : rdma_cm_id {
  uint32_t handle = 0;
  cm_state state = cm_state::idle;
  bool counted = false;  // the application knows of it
  bool given_up = false;  // its destruction has failed
  uint32_t events_read = 0;
  uint32_t events_acknowledged = 0;

  int requests_left = 0;  // of a listener: its backlog
  std::vector<uint32_t> requests;  // of a listener: handles of the ids that it was asked for

  uint32_t peer = 0;  // handle of the id at the other end
  uint32_t peer_qp = 0;
  bool is_passive = false;
  uint8_t responder_resources = 0;  // how many reads this side answers at once
  uint8_t initiator_depth = 0;      // how many it may have outstanding
  uint8_t retry_count = 7;
  uint8_t peer_rnr_retry_count = 7;  // what the other side asked this one to do
  bool disconnect_sent = false;
  bool disconnect_received = false;
  bool disconnect_reported = false;
  bool timewait_reported = false;
};

struct cm_event : rdma_cm_event {
  cm_id* counts_for = nullptr;
  std::vector<uint8_t> private_bytes;
};

}  // namespace simverbs
