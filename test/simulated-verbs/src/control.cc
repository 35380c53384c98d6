// The functions that tests call.
#include "simulated_verbs.h"

#include <cerrno>

#include "cm_connection.h"
#include "completion.h"
#include "queue_pair.h"
#include "world.h"

using namespace simverbs;

namespace {

int refused() {
  errno = EINVAL;
  return -1;
}

// Everything that may wait behind a hold or a delay gets its chance.
void pump_everything() {
  pump_all_completions();
  pump_cq_events();
  pump_reports();
  for (const auto& [number, pair] : the_world().queue_pairs) {
    if (pair->state == IBV_QPS_RTS && !pair->sends.empty()) kick(pair);
    if (pair->state == IBV_QPS_ERR) schedule_flush(pair);
  }
}

int64_t held_sends() {
  int64_t count = 0;
  for (const auto& [number, pair] : the_world().queue_pairs) {
    count += static_cast<int64_t>(pair->sends.size() - pair->started);
  }
  return count;
}

void errors_on_device(device* owner) {
  std::vector<uint32_t> numbers;
  for (const auto& [number, pair] : the_world().queue_pairs) {
    if (device_of(pair->context) == owner) numbers.push_back(number);
  }
  for (const uint32_t number : numbers) enter_error(the_world().find_queue_pair(number));
}

}  // namespace

extern "C" {

int simverbs_reset(const char* personality) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  settings fresh;
  if (!fresh.take_personality(personality)) return refused();
  w.set = fresh;
  w.faults = {};
  w.counts.clear();
  make_devices();
  for (device* each : w.devices) {
    each->removed = false;
    each->port_active = true;
  }
  pump_everything();
  return 0;
}

int simverbs_set(const char* setting, int64_t value) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  int64_t* field = w.set.find(setting);
  if (field == nullptr) return refused();
  *field = value;
  pump_everything();
  return 0;
}

int simverbs_get(const char* setting, int64_t* value) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  const int64_t* field = w.set.find(setting);
  if (field == nullptr) return refused();
  *value = *field;
  return 0;
}

int simverbs_fail_call(const char* symbol, int skip, int times, int error_number) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  return w.faults.fail_call(symbol, skip, times, error_number) ? 0 : refused();
}

int64_t simverbs_calls(const char* symbol) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  const int64_t calls = w.faults.calls(symbol);
  return calls < 0 ? refused() : calls;
}

int simverbs_hold(const char* point, uint32_t queue_pair) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  const auto named = hold_point_named(point);
  if (!named) return refused();
  w.faults.hold(*named, queue_pair);
  return 0;
}

int simverbs_release(const char* point, uint32_t queue_pair) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  const auto named = hold_point_named(point);
  if (!named) return refused();
  w.faults.release(*named, queue_pair);
  pump_everything();
  return 0;
}

int64_t simverbs_held(const char* point) {
  lock_guard lock(the_world().mutex);
  const auto named = hold_point_named(point);
  if (!named) return refused();
  switch (*named) {
    case hold_point::send_completions: return held_completions(true);
    case hold_point::receive_completions: return held_completions(false);
    case hold_point::cq_events: return held_cq_events();
    case hold_point::cm_events: return held_reports();
    case hold_point::hardware: return held_sends();
  }
  return refused();
}

int simverbs_drop_cq_events(int count) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (count < 0) return refused();
  w.faults.dropped_cq_events = count;
  return 0;
}

int simverbs_drop_cm_events(int type, int count) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (count < 0) return refused();
  if (count == 0) w.faults.dropped_cm_events.erase(type);
  else w.faults.dropped_cm_events[type] = count;
  return 0;
}

int simverbs_replace_cm_event(int type, int other, int status) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  w.faults.replacements[type] = {other, status};
  return 0;
}

int simverbs_receiver_not_ready(int count) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  if (count < 0) return refused();
  w.faults.receiver_not_ready = count;
  return 0;
}

int simverbs_fail_work(int skip, int status) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  // As many as the type has bits for: libraries that are newer have more names.
  constexpr int most = 31;
  if (skip < 0 || status <= IBV_WC_SUCCESS || status > most) return refused();
  w.faults.work_failures.push_back({skip, status});
  return 0;
}

void simverbs_remove_device(void) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  device* owner = main_device();
  if (owner->removed) return;
  owner->removed = true;
  raise_async_on_device(owner, IBV_EVENT_DEVICE_FATAL, 0);
  std::vector<uint32_t> handles;
  for (const auto& [handle, id] : w.cm_ids) {
    // A listener on the wildcard belongs to no device and hears nothing.
    if (id->verbs == owner->cm_context) handles.push_back(handle);
  }
  for (const uint32_t handle : handles) {
    cm_id* id = find_id(handle);
    id->state = cm_state::removed;
    if (!id->counted) continue;
    cm_report what;
    what.id = handle;
    what.type = RDMA_CM_EVENT_DEVICE_REMOVAL;
    report(std::move(what));
  }
  errors_on_device(owner);
}

void simverbs_restore_device(void) {
  lock_guard lock(the_world().mutex);
  main_device()->removed = false;
}

void simverbs_set_port(int active) {
  lock_guard lock(the_world().mutex);
  device* owner = main_device();
  const bool wanted = active != 0;
  if (owner->port_active == wanted) return;
  owner->port_active = wanted;
  raise_async_on_device(owner, wanted ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 1);
  pump_everything();
}

int64_t simverbs_live(const char* kind) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  for (const char* known : {"context", "pd", "mr", "mw", "cq", "qp", "srq", "comp-channel", "cm-channel", "cm-id",
                            "pinned-bytes"}) {
    if (std::string(known) == kind) return w.live[kind];
  }
  return refused();
}

int simverbs_regions(int access) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  int regions = 0;
  for (const auto& [key, region] : w.by_rkey) {
    if ((region->access & static_cast<unsigned>(access)) != 0) ++regions;
  }
  return regions;
}

int64_t simverbs_count(const char* what) {
  world& w = the_world();
  lock_guard lock(w.mutex);
  for (const char* known : {"cq-overruns", "rnr-answers", "rnr-wait-us", "retries", "flushed", "send-chains",
                            "receive-chains", "inline", "signalled", "sends", "reads", "writes", "atomics", "cq-events",
                            "lost-cq-events", "cm-events", "async-events", "contexts-reused", "closed-devices", "busy"}) {
    if (std::string(known) == what) return w.counts[what];
  }
  return refused();
}

}  // extern "C"
