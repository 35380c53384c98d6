// Ids: making, binding, resolving, ending.
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "cm_address.h"
#include "cm_connection.h"
#include "device_operations.h"
#include "hardware.h"
#include "queue_pair.h"
#include "world.h"

using namespace simverbs;

namespace simverbs {

cm_id* find_id(uint32_t handle) {
  const auto found = the_world().cm_ids.find(handle);
  return found == the_world().cm_ids.end() ? nullptr : found->second;
}

cm_id* id_of_queue_pair(uint32_t number) {
  const queue_pair* pair = the_world().find_queue_pair(number);
  return pair == nullptr ? nullptr : find_id(pair->cm_id);
}

bool is_iwarp(const cm_id* id) {
  return id->verbs != nullptr && id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

std::optional<cm_state> cm_state_named(const std::string& name) {
  static const std::map<std::string, cm_state> names = {
      {"idle", cm_state::idle},
      {"bound", cm_state::bound},
      {"resolving-address", cm_state::resolving_address},
      {"address-resolved", cm_state::address_resolved},
      {"resolving-route", cm_state::resolving_route},
      {"route-resolved", cm_state::route_resolved},
      {"connecting", cm_state::connecting},
      {"answered", cm_state::answered},
      {"listening", cm_state::listening},
      {"requested", cm_state::requested},
      {"accepted", cm_state::accepted},
      {"connected", cm_state::connected},
      {"disconnected", cm_state::disconnected},
      {"removed", cm_state::removed},
  };
  const auto found = names.find(name);
  if (found == names.end()) return std::nullopt;
  return found->second;
}

cm_report about(const cm_id* id, rdma_cm_event_type type, int status) {
  cm_report what;
  what.id = id->handle;
  what.type = type;
  what.status = status;
  return what;
}

cm_id* make_id(cm_channel* channel, void* context, rdma_port_space space) {
  auto* id = new cm_id();
  id->channel = channel;
  id->context = context;
  id->ps = space;
  id->qp_type = IBV_QPT_RC;
  id->handle = the_world().next_handle();
  the_world().cm_ids[id->handle] = id;
  ++channel->ids;
  return id;
}

namespace {

int failed(int error_number) {
  errno = error_number;
  return -1;
}

int step(cm_id* id, cm_state from, cm_state during, cm_state done, rdma_cm_event_type type) {
  if (id->state == cm_state::removed) return failed(ENODEV);
  if (id->state != from) return failed(EINVAL);
  id->state = during;
  after(the_world().set.cm_packet_us, [handle = id->handle, during, done, type] {
    cm_id* still = find_id(handle);
    if (still == nullptr || still->state != during) return;
    still->state = done;
    cm_report what;
    what.id = handle;
    what.type = type;
    report(what);
  });
  return 0;
}

}  // namespace

}  // namespace simverbs

extern "C" {

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** result, void* context, rdma_port_space space) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (const int error_number = call_fails("rdma_create_id")) return failed(error_number);
  // Ids without a channel make every call wait; nothing here waits.
  if (channel == nullptr || space != RDMA_PS_TCP) return failed(EOPNOTSUPP);
  cm_id* id = make_id(static_cast<cm_channel*>(channel), context, space);
  id->counted = true;
  ++w.live["cm-id"];
  *result = id;
  return 0;
}

int rdma_destroy_id(rdma_cm_id* plain) {
  lock_guard lock(the_world().mutex);
  auto* id = static_cast<cm_id*>(plain);
  if (const int error_number = call_fails("rdma_destroy_id")) {
    id->given_up = true;
    return failed(error_number);
  }
  await_answer(lock, id->handle);
  if (id->events_read != id->events_acknowledged) {
    misuse(lock, "rdma_destroy_id of an id with events that were read and not acknowledged");
  }
  ibv_context* context = id->verbs;
  end_id(id);
  close_unused_device(context);
  return 0;
}

int rdma_bind_addr(rdma_cm_id* plain, sockaddr* address) {
  lock_guard lock(the_world().mutex);
  int error_number = call_fails("rdma_bind_addr");
  if (error_number == 0 && address_bytes(address) == 0) error_number = EINVAL;
  auto* id = static_cast<cm_id*>(plain);
  if (error_number == 0) error_number = bind_id(id, address);
  if (error_number != 0) return failed(error_number);
  if (!is_wildcard(address)) take_device(id);
  return 0;
}

int rdma_resolve_addr(rdma_cm_id* plain, sockaddr* source, sockaddr* destination, int) {
  lock_guard lock(the_world().mutex);
  auto* id = static_cast<cm_id*>(plain);
  int error_number = call_fails("rdma_resolve_addr");
  if (error_number == 0 && (address_bytes(destination) == 0 || (source != nullptr && address_bytes(source) == 0))) {
    error_number = EINVAL;
  }
  if (error_number == 0 && id->state == cm_state::idle) {
    sockaddr_storage any{};
    any.ss_family = destination->sa_family;
    error_number = bind_id(id, source != nullptr ? source : reinterpret_cast<sockaddr*>(&any));
  }
  if (error_number == 0 && id->state != cm_state::bound) error_number = EINVAL;
  if (error_number != 0) return failed(error_number);
  sockaddr_storage& target = id->route.addr.dst_storage;
  target = {};
  std::memcpy(&target, destination, address_bytes(destination));
  make_concrete(target);
  auto* host = reinterpret_cast<sockaddr*>(&target);
  if (!is_local(host) || main_device()->removed) {
    const int status = main_device()->removed ? -ENODEV : -EHOSTUNREACH;
    id->state = cm_state::resolving_address;
    after(the_world().set.cm_packet_us, [handle = id->handle, status] {
      cm_id* still = find_id(handle);
      if (still == nullptr) return;
      still->state = cm_state::bound;
      cm_report what;
      what.id = handle;
      what.type = RDMA_CM_EVENT_ADDR_ERROR;
      what.status = status;
      report(what);
    });
    return 0;
  }
  if (is_wildcard(&id->route.addr.src_addr)) {
    const __be16 port = port_of(&id->route.addr.src_addr);
    id->route.addr.src_storage = target;
    set_port(&id->route.addr.src_addr, port);
  }
  return step(id, cm_state::bound, cm_state::resolving_address, cm_state::address_resolved,
              RDMA_CM_EVENT_ADDR_RESOLVED);
}

int rdma_resolve_route(rdma_cm_id* plain, int) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("rdma_resolve_route")) return failed(error_number);
  return step(static_cast<cm_id*>(plain), cm_state::address_resolved, cm_state::resolving_route,
              cm_state::route_resolved, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int rdma_listen(rdma_cm_id* plain, int backlog) {
  lock_guard lock(the_world().mutex);
  auto* id = static_cast<cm_id*>(plain);
  int error_number = call_fails("rdma_listen");
  if (error_number == 0 && id->state == cm_state::idle) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    error_number = bind_id(id, reinterpret_cast<sockaddr*>(&any));
  }
  if (error_number == 0 && id->state != cm_state::bound) error_number = EINVAL;
  if (error_number != 0) return failed(error_number);
  constexpr int kernel_limit = 1024;
  id->requests_left = backlog > 0 && backlog < kernel_limit ? backlog : kernel_limit;
  id->state = cm_state::listening;
  return 0;
}

int rdma_migrate_id(rdma_cm_id* plain, rdma_event_channel* channel) {
  lock_guard lock(the_world().mutex);
  if (const int error_number = call_fails("rdma_migrate_id")) return failed(error_number);
  if (channel == nullptr) return failed(EOPNOTSUPP);
  auto* id = static_cast<cm_id*>(plain);
  if (id->events_read != id->events_acknowledged) {
    misuse(lock, "rdma_migrate_id of an id with events that were read and not acknowledged");
  }
  auto* from = static_cast<cm_channel*>(id->channel);
  auto* to = static_cast<cm_channel*>(channel);
  std::vector<cm_report> moved;
  from->reports.remove([&](const cm_report& what) {
    if (what.id != id->handle) return false;
    moved.push_back(what);
    return true;
  });
  for (cm_report& what : moved) to->reports.push(std::move(what));
  --from->ids;
  ++to->ids;
  id->channel = channel;
  return 0;
}

int rdma_create_qp(rdma_cm_id* plain, ibv_pd* domain, ibv_qp_init_attr* init) {
  lock_guard lock(the_world().mutex);
  auto* id = static_cast<cm_id*>(plain);
  int error_number = call_fails("rdma_create_qp");
  if (error_number == 0 && (id->qp != nullptr || id->verbs == nullptr)) error_number = EINVAL;
  if (domain == nullptr) domain = id->pd;
  if (error_number == 0 && domain->context != id->verbs) error_number = EINVAL;
  if (error_number != 0) return failed(error_number);
  queue_pair* pair = make_queue_pair(domain, init, error_number);
  if (pair == nullptr) return failed(error_number);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = id->port_num;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  error_number = modify_queue_pair(pair, &attributes,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error_number != 0) {
    destroy_queue_pair(lock, pair);
    return failed(error_number);
  }
  pair->cm_id = id->handle;
  id->qp = pair;
  id->pd = domain;
  return 0;
}

void rdma_destroy_qp(rdma_cm_id* plain) {
  lock_guard lock(the_world().mutex);
  call_fails("ibv_destroy_qp");  // counted; this way of destroying tells nobody of a failure
  destroy_queue_pair(lock, static_cast<queue_pair*>(plain->qp));
  plain->qp = nullptr;
}

__be16 rdma_get_src_port(rdma_cm_id* id) { return port_of(&id->route.addr.src_addr); }
__be16 rdma_get_dst_port(rdma_cm_id* id) { return port_of(&id->route.addr.dst_addr); }

}  // extern "C"
