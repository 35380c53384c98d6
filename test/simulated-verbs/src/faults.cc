#include "faults.h"

#include <cstring>

namespace simverbs {

namespace {

// Every call that can be made to fail. A name that is not here is a mistake of the test.
constexpr const char* fault_points[] = {
    "ibv_get_device_list", "ibv_open_device",      "ibv_query_device",        "ibv_query_port",
    "ibv_query_gid",       "ibv_alloc_pd",         "ibv_dealloc_pd",          "ibv_reg_mr",
    "ibv_dereg_mr",        "ibv_create_comp_channel", "ibv_destroy_comp_channel", "ibv_create_cq",
    "ibv_destroy_cq",      "ibv_get_cq_event",     "ibv_poll_cq",             "ibv_req_notify_cq",
    "ibv_create_qp",       "ibv_modify_qp",        "ibv_query_qp",            "ibv_destroy_qp",
    "ibv_create_srq",      "ibv_modify_srq",       "ibv_query_srq",           "ibv_destroy_srq",
    "ibv_post_send",       "ibv_post_recv",        "ibv_post_srq_recv",       "ibv_get_async_event",
    "ibv_fork_init",       "ibv_alloc_mw",         "ibv_dealloc_mw",          "ibv_close_device",
    "rdma_create_event_channel", "rdma_create_id", "rdma_destroy_id",         "rdma_bind_addr",
    "rdma_resolve_addr",   "rdma_resolve_route",   "rdma_create_qp",          "rdma_connect",
    "rdma_listen",         "rdma_accept",          "rdma_reject",             "rdma_disconnect",
    "rdma_establish",      "rdma_get_cm_event",    "rdma_ack_cm_event",       "rdma_migrate_id",
    "rdma_notify",         "rdma_get_devices",
};

bool is_fault_point(const char* symbol) {
  for (const char* known : fault_points) {
    if (std::strcmp(known, symbol) == 0) return true;
  }
  return false;
}

}  // namespace

std::optional<hold_point> hold_point_named(const char* name) {
  static const std::map<std::string, hold_point> names = {
      {"send-completions", hold_point::send_completions},
      {"receive-completions", hold_point::receive_completions},
      {"cq-events", hold_point::cq_events},
      {"cm-events", hold_point::cm_events},
      {"hardware", hold_point::hardware},
  };
  const auto found = names.find(name);
  if (found == names.end()) return std::nullopt;
  return found->second;
}

bool fault_plan::fail_call(const char* symbol, int skip, int times, int error_number) {
  if (!is_fault_point(symbol) || skip < 0 || times == 0 || error_number <= 0) return false;
  failures_[symbol].push_back({skip, times, error_number});
  return true;
}

int fault_plan::next_call(const char* symbol) {
  ++calls_[symbol];
  if (failures_.empty()) return 0;
  const auto found = failures_.find(symbol);
  if (found == failures_.end()) return 0;
  call_failure& next = found->second.front();
  if (next.skip > 0) {
    --next.skip;
    return 0;
  }
  const int error_number = next.error_number;
  if (next.times > 0 && --next.times == 0) {
    found->second.erase(found->second.begin());
    if (found->second.empty()) failures_.erase(found);
  }
  return error_number;
}

int64_t fault_plan::calls(const char* symbol) const {
  if (!is_fault_point(symbol)) return -1;
  const auto found = calls_.find(symbol);
  return found == calls_.end() ? 0 : found->second;
}

bool fault_plan::is_held(hold_point point, uint32_t queue_pair) const {
  const auto found = held_.find(point);
  if (found == held_.end() || found->second.empty()) return false;
  return found->second.count(0) != 0 || found->second.count(queue_pair) != 0;
}

bool fault_plan::take_dropped_cq_event() {
  if (dropped_cq_events == 0) return false;
  --dropped_cq_events;
  return true;
}

bool fault_plan::take_dropped_cm_event(int type) {
  const auto found = dropped_cm_events.find(type);
  if (found == dropped_cm_events.end()) return false;
  if (--found->second == 0) dropped_cm_events.erase(found);
  return true;
}

std::optional<fault_plan::replacement> fault_plan::take_replacement(int type) {
  const auto found = replacements.find(type);
  if (found == replacements.end()) return std::nullopt;
  const replacement result = found->second;
  replacements.erase(found);
  return result;
}

bool fault_plan::take_receiver_not_ready() {
  if (receiver_not_ready == 0) return false;
  --receiver_not_ready;
  return true;
}

int fault_plan::next_work_status() {
  if (work_failures.empty()) return 0;
  work_failure& next = work_failures.front();
  if (next.skip > 0) {
    --next.skip;
    return 0;
  }
  const int status = next.status;
  work_failures.erase(work_failures.begin());
  return status;
}

}  // namespace simverbs
