#include "engine/engine.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

engine::engine(std::shared_ptr<const verbs_library> library, engine_host& host)
    : host_(host), library_(std::move(library)) {
  const device_list devices(library_);
  if (devices.size() == 0) {
    throw verbs_error("no-device", "ibv_get_device_list", 0, "this machine has no RDMA device");
  }
  devices.check_files();
  channel();
}

engine::~engine() {
  for (entry& each : entries_) {
    if (!each.peer || !each.peer->has_queue_pair() || each.peer->connecting_elsewhere) continue;
    if (each.peer->is_attempt()) each.peer->let_go_of_memory();
    else each.peer->id().disconnect();
    end_elsewhere(std::move(each.peer), place::kept);
  }
  entries_.clear();
  // Other threads wait for the device and for peers, and end what is left. They find nothing in it of the environment, which may be gone
  // by then.
  for (const auto& of : elsewhere_) {
    of->let_go_of_memory();
    if (of->pool()) of->pool()->let_go_of_memory();
  }
  for (const auto& [context, device] : devices_) device->release_watchers();
}

const std::shared_ptr<event_channel>& engine::channel() {
  if (!channel_) {
    auto opened = std::make_shared<event_channel>(library_);
    channel_watch_ = host_.watch(opened->fd(), engine_host::readable::cm_events);
    channel_ = std::move(opened);
  }
  return channel_;
}

// ---- names ------------------------------------------------------------------------------------------------------

handle engine::reserve_entry() {
  if (full()) {
    throw verbs_error("no-resources", "connect", 0, "one transport holds at most 65,536 connections and listeners");
  }
  if (free_entries_.empty()) {
    entries_.emplace_back();
    free_entries_.push_back(static_cast<uint32_t>(entries_.size() - 1));
  }
  const uint32_t index = free_entries_.back();
  free_entries_.pop_back();
  ++live_;
  return handle(index, entries_[index].generation);
}

void engine::free_entry(handle freed) {
  entry& slot = entries_[freed.index()];
  slot.peer.reset();
  slot.listening.reset();
  // Generation 0 is never used, so that a handle of 0 names nothing.
  slot.generation = slot.generation == handle::max_generation ? 1 : slot.generation + 1;
  free_entries_.push_back(freed.index());
  --live_;
}

connection* engine::find(handle wanted) const {
  if (wanted.index() >= entries_.size()) return nullptr;
  const entry& slot = entries_[wanted.index()];
  return slot.generation == wanted.generation() ? slot.peer.get() : nullptr;
}

cm_id* engine::find_listener(handle wanted) const {
  if (wanted.index() >= entries_.size()) return nullptr;
  const entry& slot = entries_[wanted.index()];
  return slot.generation == wanted.generation() ? slot.listening.get() : nullptr;
}

connection* engine::find(const rdma_cm_id* id) const {
  connection* found = find(handle::from_value(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(id->context))));
  return found != nullptr && found->id().get() == id ? found : nullptr;
}

// ---- calls ------------------------------------------------------------------------------------------------------

handle engine::listen(const socket_address& address, int backlog) {
  const handle name = reserve_entry();
  try {
    auto id = std::make_unique<cm_id>(channel(), context_of(name));
    id->bind(address.get());
    id->listen(backlog);
    entries_[name.index()].listening = std::move(id);
  } catch (...) {
    free_entry(name);
    attempt_failed();
    throw;
  }
  return name;
}

host_and_port engine::listener_address(handle listener) const {
  const cm_id* id = find_listener(listener);
  if (id == nullptr) return {"", 0};
  host_and_port address = format_address(id->local_address());
  address.port = id->local_port();
  return address;
}

void engine::close_listener(handle listener) {
  if (find_listener(listener) != nullptr) free_entry(listener);
}

handle engine::connect(const socket_address& remote, const std::optional<socket_address>& local,
                       const connection_sizes& sizes, connection_memory memory, int timeout_ms) {
  const handle name = reserve_entry();
  try {
    auto id = std::make_unique<cm_id>(channel(), context_of(name));
    if (local) id->bind(local->get());
    auto made = std::make_shared<connection>(name, std::move(id), connection_phase::resolving_address);
    made->destination = remote;
    made->resolve_left_ms = timeout_ms;
    resolve_address(*made);
    made->set_memory(sizes, std::move(memory));
    entries_[name.index()].peer = std::move(made);
  } catch (...) {
    free_entry(name);
    attempt_failed();
    throw;
  }
  return name;
}

void engine::reject(handle request, reject_reason reason) {
  connection* waiting = find(request);
  if (waiting == nullptr) return;
  refuse(waiting->id(), reason);
  free_entry(request);
}

void engine::send_close(handle closing) {
  connection* found = find(closing);
  if (found == nullptr) return;
  found->want_close();
  mark_dirty(*found);
}

void engine::finish(handle finished) {
  connection* found = find(finished);
  if (found == nullptr) return;
  found->finish_wanted = true;
  settle(*found);
}

void engine::abort(handle aborted, std::string text, frame_type type, uint32_t timeout_ms) {
  connection* found = find(aborted);
  if (found == nullptr) return;
  if (found->phase() != connection_phase::open || found->loss) {
    doom(*found, std::nullopt);
    return;
  }
  found->want_abort(std::move(text), type);
  limit_end(*found, timeout_ms);
  mark_dirty(*found);
}

void engine::destroy(handle destroyed) {
  connection* found = find(destroyed);
  if (found != nullptr) doom(*found, std::nullopt);
}

void engine::report_up(connection& of, event_kind kind) {
  const device_resources& device = *of.device();
  host_and_port local = format_address(of.id().local_address());
  local.port = of.id().local_port();
  descriptions_[of.self().value()] = {device.context().name(),
                                      device.context().is_iwarp(),
                                      of.has_atomics() && of.peer().atomics,
                                      library_->fork_hides_pages(),
                                      of.inline_bytes(),
                                      of.read_depth(),
                                      of.peer().slot_bytes,
                                      of.peer().max_message_bytes,
                                      of.may_advertise() ? of.peer().window_bytes : 0,
                                      of.own_hello().secret,
                                      of.peer().secret,
                                      local,
                                      format_address(of.id().peer_address())};
  events_.push(kind, of.self());
}

connection_description engine::take_description(handle connection) {
  const auto found = descriptions_.find(connection.value());
  if (found == descriptions_.end()) throw verbs_error("verbs", "describe", 0, "this connection was not reported");
  connection_description taken = std::move(found->second);
  descriptions_.erase(found);
  return taken;
}

std::optional<failure> engine::take_failure(handle ended) {
  const auto found = failures_.find(ended.value());
  if (found == failures_.end()) return std::nullopt;
  failure taken = std::move(found->second);
  failures_.erase(found);
  return taken;
}

// ---- posting ----------------------------------------------------------------------------------------------------

void engine::mark_dirty(connection& of) {
  if (of.dirty) return;
  of.dirty = true;
  dirty_.push_back(of.self());
}

void engine::flush() {
  stalled_ = false;
  post_pools();
  std::vector<handle> stalled;
  for (size_t i = 0; i < dirty_.size(); ++i) {
    connection* of = find(dirty_[i]);
    if (of == nullptr) continue;
    of->dirty = false;
    if (of->doomed || of->loss) continue;
    if (auto why = of->flush()) {
      lose(*of, std::move(*why));
      continue;
    }
    if (of->stalled()) stalled.push_back(of->self());
    if (of->take_writable()) events_.push(event_kind::writable, of->self());
    settle(*of);
  }
  dirty_.clear();
  for (const handle each : stalled) {
    stalled_ = true;
    mark_dirty(*find(each));
  }
  reap();
}

}  // namespace verbmq
