// What RDMA this machine has, found by trying.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/connection.h"
#include "verbs/verbs_library.h"

namespace verbmq {

struct port_report {
  int number;
  std::string state;       // "active", "down", "initialising", "armed", …
  std::string link_layer;  // "InfiniBand", "Ethernet", "unspecified"
  int active_mtu_bytes;
};

struct device_report {
  std::string name;
  std::string transport;  // "InfiniBand", "RoCE", "iWARP", "unknown"
  std::vector<port_report> ports;
  std::string firmware;
  int max_queue_pairs = 0;
  int max_work_requests = 0;
  int max_pieces = 0;
  int max_completion_entries = 0;
  int max_memory_regions = 0;
  int max_shared_receive_queues = 0;
  int max_shared_receives = 0;  // in one such queue
  int max_reads_as_responder = 0;
  int max_reads_as_initiator = 0;
  std::string atomics;  // "none", "device", "global"
  /// Why the device cannot be used: opening it, or making a queue or a region on it, failed.
  std::optional<failure> problem;
};

/// Every device of the machine. Each is opened, and given what a connection needs: a protection domain, a completion
/// queue, and `memory_bytes` of registered memory; all is returned at once. Throws verbs_error when there is nothing to list or rdma_cm does not answer:
/// "library-missing", "module-missing", "no-device", "no-permission", ….
/// Takes seconds where libraries are read for the first time, and as long as a driver wants. On any thread.
std::vector<device_report> probe_devices(const library_paths& paths, size_t memory_bytes);

}  // namespace verbmq
