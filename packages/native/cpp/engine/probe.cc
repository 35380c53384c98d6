#include "engine/probe.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "verbs/cm_id.h"
#include "verbs/completion_queue.h"
#include "verbs/device_context.h"
#include "verbs/protection_domain.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

std::string port_state_name(int state) {
  switch (state) {
    case IBV_PORT_NOP: return "no-change";
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "initialising";
    case IBV_PORT_ARMED: return "armed";
    case IBV_PORT_ACTIVE: return "active";
    case IBV_PORT_ACTIVE_DEFER: return "active-deferred";
    default: return "state-" + std::to_string(state);
  }
}

std::string link_layer_name(int layer) {
  switch (layer) {
    case IBV_LINK_LAYER_INFINIBAND: return "InfiniBand";
    case IBV_LINK_LAYER_ETHERNET: return "Ethernet";
    default: return "unspecified";
  }
}

std::string transport_name(int transport, const std::vector<port_report>& ports) {
  switch (transport) {
    case IBV_TRANSPORT_IB:
      return !ports.empty() && ports.front().link_layer == "Ethernet" ? "RoCE" : "InfiniBand";
    case IBV_TRANSPORT_IWARP: return "iWARP";
    case IBV_TRANSPORT_USNIC:
    case IBV_TRANSPORT_USNIC_UDP: return "usNIC";
    default: return "unknown";
  }
}

std::string atomics_name(int capability) {
  switch (capability) {
    case IBV_ATOMIC_NONE: return "none";
    case IBV_ATOMIC_HCA: return "device";
    case IBV_ATOMIC_GLOB: return "global";
    default: return "capability-" + std::to_string(capability);
  }
}

int mtu_bytes(int mtu) { return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128 << mtu : 0; }

void query(device_report& report, const device_context& context) {
  const ibv_device_attr attributes = context.attributes();
  report.firmware = attributes.fw_ver;
  report.max_queue_pairs = attributes.max_qp;
  report.max_work_requests = attributes.max_qp_wr;
  report.max_pieces = attributes.max_sge;
  report.max_completion_entries = attributes.max_cqe;
  report.max_memory_regions = attributes.max_mr;
  report.max_shared_receive_queues = attributes.max_srq;
  report.max_shared_receives = attributes.max_srq_wr;
  report.max_reads_as_responder = attributes.max_qp_rd_atom;
  report.max_reads_as_initiator = attributes.max_qp_init_rd_atom;
  report.atomics = atomics_name(attributes.atomic_cap);
  for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
    const ibv_port_attr port = context.port(static_cast<uint8_t>(number));
    report.ports.push_back(
        {number, port_state_name(port.state), link_layer_name(port.link_layer), mtu_bytes(port.active_mtu)});
  }
  report.transport = transport_name(context.get()->device->transport_type, report.ports);
}

// The things every connection needs, in the order in which a small memlock limit makes them fail.
void try_resources(const std::shared_ptr<device_context>& context, size_t memory_bytes) {
  const auto domain = std::make_shared<protection_domain>(context);
  const auto channel = std::make_shared<completion_channel>(context);
  const completion_queue queue(channel, 64);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (memory_bytes + page - 1) / page * page;
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(page, bytes), &std::free);
  if (!memory) throw call_failed("aligned_alloc", ENOMEM);
  const memory_region region(domain, memory.get(), bytes, IBV_ACCESS_LOCAL_WRITE);
}

}  // namespace

std::vector<device_report> probe_devices(const library_paths& paths, size_t memory_bytes) {
  const auto library = verbs_library::open(paths);
  const device_list devices(library);
  if (devices.size() == 0) {
    throw verbs_error("no-device", "ibv_get_device_list", 0, "this machine has no RDMA device");
  }
  std::vector<device_report> reports;
  for (int i = 0; i < devices.size(); ++i) {
    device_report report;
    report.name = library->get_device_name(devices.at(i));
    try {
      const auto context = std::make_shared<device_context>(library, devices.at(i));
      query(report, *context);
      try_resources(context, memory_bytes);
    } catch (const verbs_error& error) {
      report.problem = failure{error.reason(), error.what()};
    }
    reports.push_back(std::move(report));
  }
  const event_channel channel(library);
  return reports;
}

}  // namespace verbmq
