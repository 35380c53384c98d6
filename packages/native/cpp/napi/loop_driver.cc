#include "napi/loop_driver.h"

#include <cstring>
#include <string>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// The longest time that one turn polls or works before the loop may look at timers and sockets again.
constexpr uint64_t turn_ns = 500'000;
// Empty polls between two looks at the clock.
constexpr int polls_per_clock = 32;

void relax_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

loop_driver::loop_driver(uv_loop_t* loop, polling_policy policy, event_receiver& receiver)
    : loop_(loop), policy_(policy), receiver_(receiver) {}

void loop_driver::start(engine& driven) {
  engine_ = &driven;
  idle_.driver = this;
  idle_.handle.data = &idle_;
  uv_idle_init(loop_, &idle_.handle);
  uv_unref(reinterpret_cast<uv_handle_t*>(&idle_.handle));
  reference_.driver = this;
  reference_.handle.data = &reference_;
  uv_timer_init(loop_, &reference_.handle);
  uv_timer_start(&reference_.handle, [](uv_timer_t*) {}, UINT64_MAX, 0);
  uv_unref(reinterpret_cast<uv_handle_t*>(&reference_.handle));
  for_devices_.open(loop_);
  for_peers_.open(loop_);
  open_handles_ += 4;
}

loop_driver::poll_handle* loop_driver::start_poll(int fd, uv_poll_cb callback) {
  auto made = std::make_unique<poll_handle>();
  const int error_number = -uv_poll_init(loop_, &made->handle, fd);
  if (error_number != 0) {
    throw verbs_error("no-resources", "uv_poll_init", error_number,
                      std::string("a descriptor of RDMA cannot be watched: ") + std::strerror(error_number));
  }
  poll_handle* watched = made.release();
  watched->driver = this;
  watched->handle.data = watched;
  uv_poll_start(&watched->handle, UV_READABLE, callback);
  uv_unref(reinterpret_cast<uv_handle_t*>(&watched->handle));
  ++open_handles_;
  polls_.insert(watched);
  return watched;
}

template <typename owned>
void loop_driver::stop(std::set<owned*>& open, owned* unused) {
  if (open.erase(unused) == 0) return;
  uv_close(reinterpret_cast<uv_handle_t*>(&unused->handle), [](uv_handle_t* handle) {
    const std::unique_ptr<owned> closed(static_cast<owned*>(handle->data));
    closed->driver->handle_closed();
  });
}

std::shared_ptr<void> loop_driver::watch(int fd, readable what) {
  uv_poll_cb callback = nullptr;
  switch (what) {
    case readable::cm_events: callback = call<&loop_driver::on_cm_readable>; break;
    case readable::completions: callback = call<&loop_driver::on_channel_readable>; break;
    case readable::device_events: callback = call<&loop_driver::on_device_events>; break;
  }
  poll_handle* watched = start_poll(fd, callback);
  return {watched, [this](poll_handle* unused) { stop(polls_, unused); }};
}

std::shared_ptr<void> loop_driver::after(uint32_t delay_ms, std::function<void()> due) {
  auto* timer = new timer_handle();
  timer->driver = this;
  timer->due = std::move(due);
  timer->handle.data = timer;
  uv_timer_init(loop_, &timer->handle);
  // The loop's clock stands still within a turn, however long that is.
  uv_update_time(loop_);
  const uv_timer_cb callback = [](uv_timer_t* handle) {
    auto* expired = static_cast<timer_handle*>(handle->data);
    loop_driver& self = *expired->driver;
    expired->due();
    if (self.receiver_.deliver() && !self.stopped_) self.submitted();
  };
  uv_timer_start(&timer->handle, callback, delay_ms, 0);
  uv_unref(reinterpret_cast<uv_handle_t*>(&timer->handle));
  ++open_handles_;
  timers_.insert(timer);
  return {timer, [this](timer_handle* unused) { stop(timers_, unused); }};
}

void loop_driver::run_elsewhere(awaited what, std::function<void()> work, std::function<void()> done,
                                std::function<void()> left) {
  driver_threads& threads = what == awaited::device ? for_devices_ : for_peers_;
  const auto back = [this, done = std::move(done)] {
    done();
    if (receiver_.deliver() && !stopped_) submitted();
  };
  threads.run(std::move(work), back, std::move(left));
}

void loop_driver::update_reference() {
  const bool wanted = engine_ != nullptr && engine_->active();
  if (wanted == referenced_) return;
  referenced_ = wanted;
  auto* handle = reinterpret_cast<uv_handle_t*>(&reference_.handle);
  if (wanted) uv_ref(handle);
  else uv_unref(handle);
}

void loop_driver::on_cm_readable() {
  engine_->handle_cm_events();
  if (receiver_.deliver() && !stopped_) submitted();
}

void loop_driver::on_device_events() {
  engine_->handle_device_events();
  if (receiver_.deliver() && !stopped_) submitted();
}

loop_driver::progress loop_driver::work() {
  const uint64_t start = clock_.now_ns();
  for (;;) {
    if (engine_->poll() == 0 && engine_->events().empty()) return progress::idle;
    if (!receiver_.deliver() || stopped_) return progress::stopped;
    last_activity_ns_ = clock_.now_ns();
    if (last_activity_ns_ - start > turn_ns) return progress::more;
  }
}

void loop_driver::on_channel_readable() {
  if (armed_) policy_.woken_after(clock_.now_ns() - armed_at_ns_);
  armed_ = false;
  // The answer leaves before the channel is read and armed again: neither is needed for it.
  const progress result = work();
  if (result == progress::stopped) return;
  engine_->consume_completion_events();
  if (result == progress::more || policy_.budget_ns() > 0) return keep_turning();
  sleep();
}

void loop_driver::on_idle() {
  if (policy_.budget_ns() > 0 && engine_->has_connections()) {
    receiver_.begin_turn();
    spin();
    return receiver_.end_turn();
  }
  if (work() != progress::idle) return;
  if (!engine_->stalled()) return sleep();
  // A device without room gives no sign when it has some again.
  receiver_.deliver();
}

void loop_driver::spin() {
  const uint64_t start = clock_.now_ns();
  uint64_t now = start;
  int empty_polls = 0;
  while (now - start < turn_ns) {
    if (engine_->poll() > 0 || !engine_->events().empty()) {
      if (!receiver_.deliver() || stopped_) return;
      now = last_activity_ns_ = clock_.now_ns();
      empty_polls = 0;
      continue;
    }
    if (++empty_polls % polls_per_clock != 0) {
      relax_processor();
      continue;
    }
    now = clock_.now_ns();
    if (now - last_activity_ns_ > policy_.budget_ns() && !engine_->stalled()) {
      policy_.spun_in_vain();
      return sleep();
    }
  }
  // A device without room gives no sign when it has some again.
  if (engine_->stalled()) receiver_.deliver();
}

void loop_driver::sleep() {
  if (!armed_) {
    engine_->arm();
    armed_ = true;
    armed_at_ns_ = clock_.now_ns();
    // What came before the queue was armed gives no event.
    const progress result = work();
    if (result == progress::stopped) return;
    if (result == progress::more) return keep_turning();
  }
  // No device gives a sign when that may go on.
  if (engine_->stalled()) return keep_turning();
  if (turning_) {
    turning_ = false;
    uv_idle_stop(&idle_.handle);
  }
}

void loop_driver::keep_turning() {
  if (turning_ || stopped_) return;
  turning_ = true;
  uv_idle_start(&idle_.handle, [](uv_idle_t* handle) {
    static_cast<owned_handle<uv_idle_t>*>(handle->data)->driver->on_idle();
  });
}

void loop_driver::submitted() {
  if (stopped_) return;
  if (policy_.budget_ns() > 0 && engine_->has_connections()) {
    last_activity_ns_ = clock_.now_ns();
    keep_turning();
  } else if (!engine_->events().empty() || engine_->stalled()) {
    keep_turning();
  }
}

void loop_driver::stop() {
  if (stopped_) return;
  stopped_ = true;
  uv_close(reinterpret_cast<uv_handle_t*>(&idle_.handle), [](uv_handle_t* handle) {
    static_cast<owned_handle<uv_idle_t>*>(handle->data)->driver->handle_closed();
  });
  uv_close(reinterpret_cast<uv_handle_t*>(&reference_.handle), [](uv_handle_t* handle) {
    static_cast<owned_handle<uv_timer_t>*>(handle->data)->driver->handle_closed();
  });
  while (!polls_.empty()) stop(polls_, *polls_.begin());
  while (!timers_.empty()) stop(timers_, *timers_.begin());
}

void loop_driver::close(std::function<void()> closed) {
  closed_ = std::move(closed);
  for (driver_threads* each : {&for_devices_, &for_peers_}) each->close([this] { handle_closed(); });
}

void loop_driver::handle_closed() {
  --open_handles_;
  if (open_handles_ == 0 && closed_) closed_();
}

}  // namespace verbmq
