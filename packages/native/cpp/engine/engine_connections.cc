// The engine's connection management: what rdma_cm reports, and the answers.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/engine.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

constexpr int wished_read_depth = operation_queue::wished_read_depth;
// Retransmissions before a queue pair gives up: the most that the field holds.
constexpr uint8_t retry_count = 7;
// 7 would mean for ever. With credits a receiver is always ready, so this is a net below a net.
constexpr uint8_t rnr_retry_count = 6;
// Code of 0.64 ms (InfiniBand specification, table 45); 0, which rdma_cm leaves, means 655 ms.
constexpr uint8_t min_rnr_timer = 12;

// The kernel asks for the address of a peer a few times, a second apart, and then waits in vain for the rest of its time. It is
// told to ask again, so that a cable that is plugged in late is noticed.
constexpr int resolve_try_ms = 2000;

// Of one turn of the event loop: a request that is accepted takes a while, and many may come at once.
constexpr int most_cm_events = 16;

uint8_t read_depth(int device, int other) {
  return static_cast<uint8_t>(std::max(0, std::min({device, other, wished_read_depth})));
}

rdma_conn_param parameters_for(const device_resources& device, const uint8_t* private_data, uint8_t bytes,
                               int peer_responder, int peer_initiator) {
  rdma_conn_param parameters{};
  parameters.private_data = private_data;
  parameters.private_data_len = bytes;
  parameters.responder_resources = read_depth(device.attributes().max_qp_rd_atom, peer_responder);
  parameters.initiator_depth = read_depth(device.attributes().max_qp_init_rd_atom, peer_initiator);
  parameters.retry_count = retry_count;
  parameters.rnr_retry_count = rnr_retry_count;
  return parameters;
}

/// What the connecting side may have in flight, from the answer of the accepting one.
uint32_t agreed_read_depth(const device_resources& device, const cm_event& answer) {
  const uint8_t own = read_depth(device.attributes().max_qp_init_rd_atom, wished_read_depth);
  // iWARP drivers do not agree on which of the two is whose; the smaller one is safe.
  const uint8_t theirs = device.context().is_iwarp() ? std::min(answer.initiator_depth, answer.responder_resources)
                                                     : answer.initiator_depth;
  return std::min(own, theirs);
}

// In the InfiniBand specification: somebody has the port, and has said no. iWARP makes no difference to a port that nobody has.
constexpr int refused_by_listener = 28;

failure rejected(reject_reason reason, int status = 0) {
  switch (reason) {
    case reject_reason::version:
      return {"version", "the peer speaks another version of the protocol: use the same version on both sides"};
    case reject_reason::not_verbmq:
      return {"protocol", "the peer did not understand the request"};
    case reject_reason::no_resources:
      return {"overloaded", "the peer has no memory or queues left for another connection, or too many in their handshake"};
    case reject_reason::refused:
      return {"rejected", "the peer refused the connection"};
    default:
      if (status == refused_by_listener) {
        return {"connect-failed", "the peer refused without saying why: it is just ending, or is not verbmq"};
      }
      return {"connect-failed", "nobody listens there; start the server, or check the port"};
  }
}

failure failed_attempt(const cm_event& event) {
  const std::string status = event.status == 0 ? "" : std::string(": ") + std::strerror(std::abs(event.status));
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      return {"unreachable", "no RDMA device reaches this address" + status};
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return {"unreachable", "there is no RDMA route to this address" + status};
    case RDMA_CM_EVENT_UNREACHABLE:
      return {"unreachable", "the peer does not answer" + status};
    case RDMA_CM_EVENT_REJECTED:
      return rejected(reject_message::read(event.private_data.data(), event.private_data.size()), event.status);
    default:
      return {"connect-failed", "the connection could not be set up" + status};
  }
}

}  // namespace

void engine::create_queue_pair(connection& of) {
  of.create_queue_pair(*device_of(of.id()));
  of.counted = true;
  ++queue_pairs_;
}

void engine::uncount(connection& of) noexcept {
  if (std::exchange(of.counted, false)) --queue_pairs_;
}

std::optional<cm_event> engine::next_cm_event() {
  if (!channel_) return std::nullopt;
  try {
    return channel_->next();
  } catch (const verbs_error& error) {
    fail_channel(error);
    return std::nullopt;
  }
}

void engine::handle_cm_events() {
  for (int handled = 0; handled < most_cm_events; ++handled) {
    const auto event = next_cm_event();
    if (!event) break;
    try {
      handle_cm_event(*event);
    } catch (const verbs_error& error) {
      connection* of = event->type == RDMA_CM_EVENT_CONNECT_REQUEST ? nullptr : find(event->id);
      device_may_be_gone_ = true;
      if (of != nullptr) doom(*of, failure{error.reason(), error.what()});
    }
  }
  reap();
}

void engine::handle_cm_event(const cm_event& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return handle_connect_request(event);
  // Whoever hears of it: also a listener on which nobody connects, and what is on its end already.
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    device_may_be_gone_ = true;
    lost_devices_.insert(event.id->verbs);
  }
  connection* of = find(event.id);
  if (of == nullptr) {
    // A listener hears of its device only; it is then of no more use. What is on its end may have had the name of one that is in use now.
    const handle name = handle::from_value(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(event.id->context)));
    const cm_id* listener = find_listener(name);
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL && listener != nullptr && listener->get() == event.id) {
      failures_[name.value()] = lost_device(listener->verbs());
      free_entry(name);
      events_.push(event_kind::closed, name, 1);
    }
    return;
  }

  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (of->phase() != connection_phase::resolving_address) return;
      of->enter(connection_phase::resolving_route);
      of->id().resolve_route(of->resolve_left_ms);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (of->phase() != connection_phase::resolving_route) return;
      return connect_now(*of);
    case RDMA_CM_EVENT_ESTABLISHED:
      return handle_established(*of, event);
    case RDMA_CM_EVENT_ADDR_ERROR:
      if (of->phase() == connection_phase::resolving_address && std::abs(event.status) == ETIMEDOUT &&
          of->resolve_left_ms > resolve_try_ms) {
        of->resolve_left_ms -= resolve_try_ms;
        return resolve_address(*of);
      }
      [[fallthrough]];
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_REJECTED:
      // They speak of an attempt. To a side that has accepted, or is up, they only say that the other one is not.
      if (of->phase() >= connection_phase::requested) {
        return lose(*of, failure{"lost", "the connection was lost: the peer has given it up"});
      }
      device_may_be_gone_ |= event.type != RDMA_CM_EVENT_REJECTED;
      return doom(*of, failed_attempt(event));
    case RDMA_CM_EVENT_DISCONNECTED:
      return lose(*of, failure{"lost", "the connection was lost: the peer's process ended, or its network did"});
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      // Each identifier hears of it; the first one speaks for all.
      if (!of->doomed) lose_device(of->id().verbs(), "removed");
      return doom(*of, lost_device(of->id().verbs()));
    default:
      // Address changes and the end of time-wait need no answer; multicast is not used.
      return;
  }
}

void engine::resolve_address(connection& of) {
  of.id().resolve_address(of.destination->get(), std::min(of.resolve_left_ms, resolve_try_ms));
}

void engine::connect_now(connection& of) {
  create_queue_pair(of);
  of.enter(connection_phase::connecting);
  // Drivers of iWARP may open their TCP connection within this call, and wait for it.
  if (of.device()->context().is_iwarp()) return connect_elsewhere(of);
  uint8_t own[hello::bytes];
  of.own_hello().write(own);
  of.id().connect(parameters_for(*of.device(), own, sizeof own, wished_read_depth, wished_read_depth));
}

void engine::connect_elsewhere(connection& of) {
  struct job {
    std::shared_ptr<connection> of;
    uint8_t own[hello::bytes];
    rdma_conn_param parameters;
    std::optional<failure> why;
  };
  const auto shared = std::make_shared<job>();
  shared->of = entries_[of.self().index()].peer;
  of.own_hello().write(shared->own);
  shared->parameters =
      parameters_for(*of.device(), shared->own, sizeof shared->own, wished_read_depth, wished_read_depth);
  of.connecting_elsewhere = true;
  elsewhere_.insert(shared->of);
  const std::weak_ptr<engine*> wanted = self_;
  host_.run_elsewhere(
      engine_host::awaited::peer,
      [shared] {
        // Given up while it waited for its turn: those that are wanted wait behind it, and a peer that is gone lets it wait for minutes.
        if (shared->of->is_let_go_any_thread()) return;
        try {
          shared->of->id().connect(shared->parameters);
        } catch (const verbs_error& error) {
          shared->why = failure{"connect-failed", error.what()};
        }
      },
      [shared, wanted] {
        engine& self = **wanted.lock();
        shared->of->connecting_elsewhere = false;
        self.elsewhere_.erase(shared->of);
        const bool given_up = self.find(shared->of->self()) != shared->of.get();
        if (given_up) self.end_elsewhere(shared->of, place::given_away);
        else if (shared->why) self.doom(*shared->of, std::move(shared->why));
        shared->of.reset();
      },
      [shared] { end_any_thread(std::move(shared->of)); });
}

void engine::handle_established(connection& of, const cm_event& event) {
  // The accepting side is up when the peer's first frame comes; see handle_receive().
  if (of.phase() != connection_phase::connecting) return;
  reject_reason reason{};
  const auto peer = hello::read(event.private_data.data(), event.private_data.size(), reason);
  if (!peer) return doom(of, rejected(reason));
  of.set_peer(*peer);
  of.set_read_depth(agreed_read_depth(*of.device(), event));
  of.id().set_min_rnr_timer(min_rnr_timer);
  of.enter(connection_phase::open);
  of.want_ready();
  mark_dirty(of);
  report_up(of, event_kind::connected);
}

void engine::refuse(cm_id& request, reject_reason reason) noexcept {
  uint8_t message[reject_message::bytes];
  reject_message::write(message, reason);
  request.reject(message, sizeof message);
}

void engine::handle_connect_request(const cm_event& event) {
  const handle listener =
      handle::from_value(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(event.listen_id->context)));
  if (full()) {
    cm_id nameless(channel_, event.id, context_of(handle()));
    refuse(nameless, reject_reason::no_resources);
    events_.push(event_kind::refused, listener, static_cast<int32_t>(reject_reason::no_resources));
    return;
  }
  const handle name = reserve_entry();
  auto made = std::make_shared<connection>(name, std::make_unique<cm_id>(channel_, event.id, context_of(name)),
                                           connection_phase::requested);
  reject_reason reason{};
  const auto peer = hello::read(event.private_data.data(), event.private_data.size(), reason);
  made->listener = listener;
  made->offered_responder = event.responder_resources;
  made->offered_initiator = event.initiator_depth;
  if (peer) made->announce(*peer);
  entries_[name.index()].peer = std::move(made);
  if (!peer) {
    reject(name, reason);
    events_.push(event_kind::refused, listener, static_cast<int32_t>(reason));
    return;
  }
  if (find_listener(listener) == nullptr) return reject(name, reject_reason::refused);
  events_.push(event_kind::incoming, listener, static_cast<int32_t>(name.value()));
}

void engine::accept(handle request, const connection_sizes& sizes, connection_memory memory) {
  connection* of = find(request);
  if (of == nullptr || of->phase() != connection_phase::requested) return;
  of->set_memory(sizes, std::move(memory));
  if (of->pool()) {
    // A shared receive that completed for a queue pair which is gone must not be taken for one of a new queue pair with its number.
    take_all_completions();
  }
  try {
    create_queue_pair(*of);
    of->set_peer(of->peer());
    of->enter(connection_phase::accepting);
    uint8_t own[hello::bytes];
    of->own_hello().write(own);
    const rdma_conn_param parameters =
        parameters_for(*of->device(), own, sizeof own, of->offered_responder, of->offered_initiator);
    of->set_read_depth(parameters.initiator_depth);
    of->id().accept(parameters);
    // The peer's first frame may come before the event that says so.
    of->id().set_min_rnr_timer(min_rnr_timer);
  } catch (...) {
    uncount(*of);
    of->id().destroy_queue_pair();
    // A device may have completed what was posted. The next connection has these places in the queue.
    take_all_completions();
    reject(request, reject_reason::no_resources);
    attempt_failed();
    throw;
  }
}

}  // namespace verbmq
