// How connections end: by failure or in order, and in which order what they hold is given back.
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// Drivers flush at once or within milliseconds, or never. The rest is for machines so busy that what plays the device does not
// run for a while.
constexpr uint32_t flush_timeout_ms = 1000;

}  // namespace

void connection::let_go_of_memory() noexcept {
  let_go_ = true;
  if (ibv_qp* queue_pair = id_->queue_pair()) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    device_->context().library().modify_qp(queue_pair, &attributes, IBV_QP_STATE);
  }
  end_deadline.reset();
  finished_.clear();
  operations_ = {};
  outgoing_ = {};
  regions_ = {};
  receive_region_.reset();
  send_region_.reset();
  memory_ = {};
}

// News of an end can come before the peer's last frames: its abort, or its close. A device may acknowledge a frame, and the
// peer go on that, before the completion can be polled; and a send of our own may fail on the way. So the queue pair is
// moved to the error state, in which the device takes nothing more and completes every receive, in order: the first one
// that is flushed stands behind all that has come. Where receives are shared none is flushed, and reap() waits for the device.
void engine::lose(connection& of, failure why) {
  if (of.doomed || of.loss) return;
  // A device that is gone fails whatever it is asked; one that has refused an access loses the peer.
  handle_device_events();
  if (of.doomed || of.loss) return;
  of.loss = std::move(why);
  const bool may_receive = of.phase() == connection_phase::open || of.phase() == connection_phase::accepting;
  if (!may_receive || of.pool() || of.all_exchanged() || of.receives_posted() == 0) return end_lost(of);
  of.id().disconnect();
  limit_end(of, flush_timeout_ms);
}

void engine::end_lost(connection& of) {
  handle_device_events();
  doom(of, std::nullopt);
}

void engine::doom(connection& of, std::optional<failure> why) {
  if (!of.first_failure && why) of.first_failure = std::move(why);
  if (of.doomed) return;
  of.doomed = true;
  doomed_.push_back(of.self());
}

void engine::settle(connection& of) {
  if ((of.farewell_complete() || of.loss) && (of.finish_wanted || of.abort_sent())) doom(of, std::nullopt);
}

void engine::limit_end(connection& of, uint32_t timeout_ms) {
  of.end_deadline = host_.after(timeout_ms, [this, name = of.self()] {
    // A process that was held up finds this timer and the completions at once.
    take_all_completions();
    if (connection* still = find(name)) end_lost(*still);
    reap();
  });
}

void engine::reap() {
  if (doomed_.empty()) return release_lost_devices();
  // What has come is still delivered: destroying a queue pair may drop its completions.
  take_all_completions();
  for (const handle each : std::exchange(doomed_, {})) {
    connection* of = find(each);
    if (of == nullptr || drain(*of)) continue;
    // The peer ends its queue pair as soon as it has our close; that is an orderly end for both.
    const bool orderly = of->all_exchanged();
    // What the peer or the device itself has said comes first.
    if (!of->first_failure) of->first_failure = std::move(of->loss);
    const bool failed = of->first_failure.has_value() && !orderly;
    if (failed) failures_[each.value()] = std::move(*of->first_failure);
    uncount(*of);
    if (!of->has_queue_pair() || of->is_attempt()) {
      // Nobody waits longer for an attempt. Its identifier and its queue pair live on: until another thread that is still connecting comes
      // back, or an answer of the peer does, or the device lets go of them.
      const std::shared_ptr<connection> attempt = std::move(entries_[each.index()].peer);
      if (attempt->has_queue_pair()) attempt->let_go_of_memory();
      if (attempt->has_queue_pair() && !attempt->connecting_elsewhere) end_elsewhere(attempt, place::given_away);
      free_entry(each);
      events_.push(event_kind::closed, each, failed ? 1 : 0);
      continue;
    }
    if (failed && of->phase() == connection_phase::open) events_.push(event_kind::lost, each);
    of->id().disconnect();
    end_elsewhere(std::move(entries_[each.index()].peer), place::kept);
  }
  release_lost_devices();
}

// Destroying a queue pair may take seconds, and so may disconnecting an attempt over iWARP: the kernel waits for the peer's answer, which
// may be for this very thread to give. The loop has other connections. Nobody finds this one from here on; its place, unless that is
// given away, its memory and what it stands on are kept until the device has let go of them. Its part of the completion queue is others'
// only when what the device has left there is taken.
void engine::end_elsewhere(std::shared_ptr<connection> of, place its) {
  struct job {
    std::shared_ptr<connection> of;
    detached_queue_pair queue_pair;
  };
  const handle ended = of->self();
  elsewhere_.insert(of);
  detached_queue_pair queue_pair = of->id().detach_queue_pair();
  const auto shared = std::make_shared<job>(job{std::move(of), std::move(queue_pair)});
  host_.run_elsewhere(
      shared->of->is_attempt() ? engine_host::awaited::peer : engine_host::awaited::device,
      [shared] {
        shared->of->id().disconnect();
        shared->queue_pair.destroy_any_thread();
      },
      [shared, ended, its, wanted = std::weak_ptr<engine*>(self_)] {
        engine& self = **wanted.lock();
        self.take_all_completions();
        self.elsewhere_.erase(shared->of);
        shared->of.reset();
        self.ended_elsewhere(ended, its);
      },
      [shared] { end_any_thread(std::move(shared->of)); });
}

// The engine is gone, and the memory of its environment is not registered any more. What the connections of one engine have in common
// belongs to one of these threads at a time.
void engine::end_any_thread(std::shared_ptr<connection> of) {
  static auto* mutex = new std::mutex();  // never destroyed: these threads may live as long as the process
  detached_queue_pair queue_pair = of->id().detach_queue_pair();
  of->id().disconnect();
  queue_pair.destroy_any_thread();
  const std::lock_guard<std::mutex> locked(*mutex);
  of.reset();
}

void engine::ended_elsewhere(handle ended, place its) {
  if (its == place::kept) {
    free_entry(ended);
    events_.push(event_kind::closed, ended, failures_.count(ended.value()) != 0 ? 1 : 0);
  }
  release_lost_devices();
}

// What rdma_cm would have told of them nobody will hear. It may answer like this for ever, and its descriptor be readable all the
// while; so it is not watched any more, and lives on only until the identifiers that stand on it are gone.
void engine::fail_channel(const verbs_error& error) {
  channel_watch_.reset();
  channel_.reset();
  const failure why{"cm-failed", std::string("the RDMA connection manager has failed: ") + error.what()};
  for (size_t index = 0; index < entries_.size(); ++index) {
    entry& each = entries_[index];
    if (each.peer) doom(*each.peer, why);
    if (!each.listening) continue;
    const handle name(static_cast<uint32_t>(index), each.generation);
    failures_[name.value()] = why;
    free_entry(name);
    events_.push(event_kind::closed, name, 1);
  }
}

}  // namespace verbmq
