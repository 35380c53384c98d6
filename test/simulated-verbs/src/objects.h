// The verbs objects behind the pointers that the application holds. Each extends the public struct of its kind.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include <infiniband/verbs.h>

#include "event_pipe.h"

// verbs.h hides these names behind macros for its users; here they are defined.
#undef ibv_query_port
#undef ibv_reg_mr

namespace simverbs {

struct device_context;

struct device : ibv_device {
  bool removed = false;
  bool port_active = true;
  bool decoy = false;
  std::set<device_context*> contexts;
  // What the connection manager opens once and keeps; see cm_devices.cc.
  ibv_context* cm_context = nullptr;
  ibv_pd* cm_domain = nullptr;
  int cm_holders = 0;  // lists of devices that name it
};

struct device_context : verbs_context {
  device* owner = nullptr;
  int children = 0;  // protection domains, completion channels and completion queues
  event_pipe<ibv_async_event> async_events;
};

struct protection_domain : ibv_pd {
  int children = 0;
  bool counted = true;
};

struct memory_region : ibv_mr {
  unsigned access = 0;
  int windows = 0;
};

struct memory_window : ibv_mw {
  memory_region* region = nullptr;
  uint64_t start = 0;
  uint64_t bytes = 0;
  unsigned access = 0;
  uint32_t queue_pair = 0;  // type 2 windows belong to the queue pair that bound them
};

struct completion_queue;

struct completion_channel : ibv_comp_channel {
  event_pipe<completion_queue*> events;
};

struct completion {
  ibv_wc entry;
  bool solicited;
  bool is_send;
  uint32_t slots;  // places of the work queue that polling this gives back
};

struct completion_queue : ibv_cq {
  enum class arming { none, solicited, any };

  std::deque<completion> entries;
  arming armed = arming::none;
  bool overrun = false;
  int queue_pairs = 0;
  uint32_t events_read = 0;
  uint32_t async_events_read = 0;
  size_t pinned = 0;
};

struct send_work {
  enum class progress { queued, in_flight, done };

  ibv_send_wr request;
  std::vector<ibv_sge> pieces;
  std::vector<uint8_t> inline_bytes;
  bool signalled;
  progress state = progress::queued;
  ibv_wc_status status = IBV_WC_SUCCESS;
  uint32_t byte_count = 0;
  bool reported = false;  // complete for the application before work that was posted earlier
};

struct receive_work {
  uint64_t wr_id;
  std::vector<ibv_sge> pieces;
};

struct shared_receive_queue : ibv_srq {
  std::deque<receive_work> work;
  uint32_t capacity = 0;
  uint32_t max_pieces = 0;
  uint32_t limit = 0;
  int queue_pairs = 0;
  uint32_t async_events_read = 0;
};

/// Completions of one work queue on their way to the completion queue. They never pass each other.
struct completion_stream {
  struct waiting {
    completion what;
    int64_t due_us;
  };
  std::deque<waiting> queue;
  bool pumping = false;
};

struct queue_pair : ibv_qp {
  ibv_qp_cap capacity{};
  ibv_qp_attr attributes{};
  bool all_signalled = false;
  uint32_t cm_id = 0;  // handle of the id that drives it, 0 for none

  std::deque<send_work> sends;
  uint32_t first_number = 0;   // running number of the first of `sends`
  size_t started = 0;          // how many of `sends` the hardware has begun
  uint32_t send_slots = 0;     // in use
  uint32_t unsignalled = 0;    // finished without a completion since the last completion
  uint32_t reads_in_flight = 0;
  std::deque<receive_work> receives;
  uint32_t receive_slots = 0;

  bool kicked = false;
  bool waiting = false;     // for a retry
  uint32_t epoch = 0;       // changes when timers of the past have nothing more to say
  bool flush_due = false;
  int rnr_tries_left = 0;
  int tries_left = 0;
  bool is_passive = false;
  bool heard_from_peer = false;
  uint32_t async_events_read = 0;
  size_t pinned = 0;

  completion_stream send_completions;
  completion_stream receive_completions;
};

inline device_context* extended(ibv_context* plain) { return static_cast<device_context*>(verbs_get_ctx(plain)); }
inline device* device_of(ibv_context* plain) { return static_cast<device*>(plain->device); }

}  // namespace simverbs
