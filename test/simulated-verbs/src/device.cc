// Devices, their contexts, and what can be asked of them.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device_operations.h"
#include "world.h"

using namespace simverbs;

namespace simverbs {

namespace {

device* make_device(const char* name, int index, bool decoy, bool iwarp) {
  auto* made = new device();
  made->node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
  made->transport_type = iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  made->decoy = decoy;
  std::snprintf(made->name, sizeof made->name, "%s", name);
  std::snprintf(made->dev_name, sizeof made->dev_name, "uverbs%d", index);
  std::snprintf(made->dev_path, sizeof made->dev_path, "/sys/class/infiniband_verbs/uverbs%d", index);
  std::snprintf(made->ibdev_path, sizeof made->ibdev_path, "/sys/class/infiniband/%s", name);
  return made;
}

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t bytes) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_query_port")) return error_number;
  const device* owner = device_of(context);
  if (owner->removed) return EIO;
  if (port != 1) return EINVAL;
  ibv_port_attr full{};
  full.state = owner->port_active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  full.max_mtu = IBV_MTU_4096;
  full.active_mtu = IBV_MTU_4096;
  full.gid_tbl_len = owner->transport_type == IBV_TRANSPORT_IWARP ? 1 : 1024;
  full.max_msg_sz = static_cast<uint32_t>(w.set.max_message_bytes);
  full.pkey_tbl_len = 1;
  full.active_width = 1;
  full.active_speed = 1;
  full.phys_state = owner->port_active ? 5 : 3;
  full.link_layer = IBV_LINK_LAYER_ETHERNET;
  std::memset(attributes, 0, bytes);
  std::memcpy(attributes, &full, bytes < sizeof full ? bytes : sizeof full);
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input*, ibv_device_attr_ex* attributes,
                    size_t bytes) {
  if (bytes < sizeof attributes->orig_attr) return EINVAL;
  std::memset(attributes, 0, bytes);
  return ibv_query_device(context, &attributes->orig_attr);
}

}  // namespace

void make_devices() {
  world& w = the_world();
  if (!w.devices.empty()) return;
  w.devices.push_back(make_device("simulated0", 0, false, false));
  w.devices.push_back(make_device("simulated1", 1, false, true));
  w.devices.push_back(make_device("decoy0", 2, true, false));
}

device* main_device() {
  make_devices();
  return the_world().devices[the_world().set.iwarp ? 1 : 0];
}

ibv_context* open_context(device* owner) {
  auto* opened = new device_context();
  opened->owner = owner;
  opened->sz = sizeof(verbs_context);
  opened->query_port = query_port;
  opened->query_device_ex = query_device_ex;
  ibv_context& plain = opened->context;
  plain.device = owner;
  plain.abi_compat = __VERBS_ABI_IS_EXTENDED;
  plain.num_comp_vectors = 1;
  plain.cmd_fd = -1;
  plain.async_fd = opened->async_events.fd();
  plain.ops.poll_cq = poll_cq;
  plain.ops.req_notify_cq = req_notify_cq;
  plain.ops.post_send = post_send;
  plain.ops.post_recv = post_recv;
  plain.ops.post_srq_recv = post_srq_recv;
  plain.ops.alloc_mw = alloc_mw;
  plain.ops.dealloc_mw = dealloc_mw;
  plain.ops.bind_mw = bind_mw;
  pthread_mutex_init(&plain.mutex, nullptr);
  owner->contexts.insert(opened);
  return &plain;
}

}  // namespace simverbs

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_get_device_list")) {
    errno = error_number;
    if (count != nullptr) *count = 0;
    return nullptr;
  }
  device* real = main_device();
  std::vector<ibv_device*> found;
  if (w.set.decoy_devices) found.push_back(w.devices[2]);
  if (!real->removed || w.set.removed_device_listed) found.push_back(real);
  auto** list = static_cast<ibv_device**>(std::calloc(found.size() + 1, sizeof(ibv_device*)));
  for (size_t i = 0; i < found.size(); ++i) list[i] = found[i];
  if (count != nullptr) *count = static_cast<int>(found.size());
  return list;
}

void ibv_free_device_list(ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(ibv_device* plain) { return plain->name; }

__be64 ibv_get_device_guid(ibv_device* plain) { return htobe64(plain->node_type == IBV_NODE_RNIC ? 0x51 : 0x5e); }

ibv_context* ibv_open_device(ibv_device* plain) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  int error_number = call_fails("ibv_open_device");
  wait_in_call(lock, w.set.open_blocks_us);
  if (error_number == 0 && static_cast<device*>(plain)->removed) error_number = ENODEV;
  if (error_number != 0) {
    errno = error_number;
    return nullptr;
  }
  ++w.live["context"];
  return open_context(static_cast<device*>(plain));
}

int ibv_close_device(ibv_context* plain) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_close_device")) return error_number;
  device_context* opened = extended(plain);
  opened->owner->contexts.erase(opened);
  pthread_mutex_destroy(&plain->mutex);
  --w.live["context"];
  delete opened;
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_query_device")) return error_number;
  if (device_of(context)->removed) return EIO;
  const settings& set = w.set;
  *attributes = {};
  std::snprintf(attributes->fw_ver, sizeof attributes->fw_ver, "simulated");
  attributes->vendor_id = static_cast<uint32_t>(set.vendor_id);
  attributes->node_guid = ibv_get_device_guid(context->device);
  attributes->max_mr_size = UINT64_MAX;
  attributes->page_size_cap = 4096;
  attributes->max_qp = static_cast<int>(set.max_qp);
  attributes->max_qp_wr = static_cast<int>(set.max_qp_wr);
  attributes->max_sge = static_cast<int>(set.max_sge);
  attributes->max_sge_rd = static_cast<int>(set.iwarp ? 1 : set.max_sge);
  attributes->max_cq = static_cast<int>(set.max_cq);
  attributes->max_cqe = static_cast<int>(set.max_cqe);
  attributes->max_mr = static_cast<int>(set.max_mr);
  attributes->max_pd = static_cast<int>(set.max_pd);
  attributes->max_qp_rd_atom = static_cast<int>(set.max_rd_atomic);
  attributes->max_qp_init_rd_atom = static_cast<int>(set.max_rd_atomic);
  attributes->max_res_rd_atom = static_cast<int>(set.max_rd_atomic * set.max_qp);
  attributes->atomic_cap = set.atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  attributes->max_mw = set.memory_windows ? 1024 : 0;
  if (set.memory_windows) attributes->device_cap_flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attributes->max_srq = static_cast<int>(set.max_srq);
  attributes->max_srq_wr = static_cast<int>(set.max_srq_wr);
  attributes->max_srq_sge = static_cast<int>(set.max_sge);
  attributes->max_pkeys = 1;
  attributes->phys_port_cnt = 1;
  return 0;
}

// Applications built before the structure grew call this; they have room for less of it.
int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attributes) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attributes),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("ibv_query_gid")) {
    errno = error_number;
    return -1;
  }
  if (device_of(context)->removed || port != 1 || index < 0) {
    errno = device_of(context)->removed ? EIO : EINVAL;
    return -1;
  }
  std::memset(gid, 0, sizeof *gid);
  // Entry 0: an IPv4 address in its mapped form, as RoCE writes it.
  const uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  if (index == 0) std::memcpy(gid->raw, mapped, sizeof mapped);
  return 0;
}

int ibv_fork_init(void) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("ibv_fork_init")) return error_number;
  w.fork_protected = true;
  return 0;
}

ibv_fork_status ibv_is_fork_initialized(void) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (w.set.fork_protection_unneeded) return IBV_FORK_UNNEEDED;
  return w.fork_protected ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_LOC_LEN_ERR: return "local length error";
    case IBV_WC_LOC_PROT_ERR: return "local protection error";
    case IBV_WC_WR_FLUSH_ERR: return "Work Request Flushed Error";
    case IBV_WC_REM_INV_REQ_ERR: return "remote invalid request error";
    case IBV_WC_REM_ACCESS_ERR: return "remote access error";
    case IBV_WC_REM_OP_ERR: return "remote operation error";
    case IBV_WC_RETRY_EXC_ERR: return "transport retry counter exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "RNR retry counter exceeded";
    default: return "another status";
  }
}

const char* ibv_event_type_str(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR: return "CQ error";
    case IBV_EVENT_QP_FATAL: return "local work queue catastrophic error";
    case IBV_EVENT_DEVICE_FATAL: return "local catastrophic error";
    case IBV_EVENT_PORT_ACTIVE: return "port active";
    case IBV_EVENT_PORT_ERR: return "port error";
    default: return "another event";
  }
}

}  // extern "C"
