// Drives one engine from the event loop: file descriptors for sleeping, an idle handle for polling.
//
// The engine is called from here and from JavaScript, both on the loop's thread. Work of one turn is bounded, so that
// timers and sockets of the same loop still run under any load.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>

#include "engine/duration_clock.h"
#include "engine/engine.h"
#include "engine/polling_policy.h"
#include "napi/driver_threads.h"

namespace verbmq {

/// The JavaScript side of the loop.
class event_receiver {
 public:
  virtual ~event_receiver() = default;
  /// Gives the waiting events to JavaScript and flushes what it submitted; false when it cannot any more.
  virtual bool deliver() = 0;
  // Between these two it may be asked to deliver many times, and needs what all of that takes only once.
  virtual void begin_turn() = 0;
  virtual void end_turn() = 0;
};

class loop_driver final : public engine_host {
 public:
  loop_driver(uv_loop_t* loop, polling_policy policy, event_receiver& receiver);

  /// Drives `driven`, which was made with this host, and which the caller owns and keeps until stop() has been called.
  void start(engine& driven);
  /// Stops at once. What the engine leaves to other threads may still come.
  void stop();
  /// Leaves those to themselves; `closed` is called when the loop holds none of the handles any more.
  void close(std::function<void()> closed);

  /// JavaScript has submitted something outside of a delivery: an answer may be near, or events wait.
  void submitted();
  /// Holds the process while something is open, as a socket does.
  void update_reference();

  // engine_host
  std::shared_ptr<void> watch(int fd, readable what) override;
  void run_elsewhere(awaited what, std::function<void()> work, std::function<void()> done,
                     std::function<void()> left) override;
  std::shared_ptr<void> after(uint32_t delay_ms, std::function<void()> due) override;

 private:
  enum class progress { idle, more, stopped };

  template <typename handle_type>
  struct owned_handle {
    handle_type handle;
    loop_driver* driver;
  };
  using poll_handle = owned_handle<uv_poll_t>;
  struct timer_handle : owned_handle<uv_timer_t> {
    std::function<void()> due;
  };

  template <void (loop_driver::*method)()>
  static void call(uv_poll_t* handle, int, int) {
    (static_cast<poll_handle*>(handle->data)->driver->*method)();
  }
  /// Throws verbs_error.
  poll_handle* start_poll(int fd, uv_poll_cb callback);
  /// Closes what is in `open`, which then frees itself; what close() has stopped is not there.
  template <typename owned>
  void stop(std::set<owned*>& open, owned* unused);
  void on_cm_readable();
  void on_device_events();
  void on_channel_readable();
  void on_idle();
  /// Polls and delivers until there is nothing to do or the turn's time is over.
  progress work();
  /// Polls for the rest of the turn, then sleeps or comes back.
  void spin();
  void sleep();
  void keep_turning();
  void handle_closed();

  uv_loop_t* loop_;
  polling_policy policy_;
  duration_clock clock_{&uv_hrtime};
  event_receiver& receiver_;
  engine* engine_ = nullptr;
  // Those that are not closing; the loop owns the others.
  std::set<poll_handle*> polls_;
  std::set<timer_handle*> timers_;
  owned_handle<uv_idle_t> idle_{};
  // Never due: the loop goes on while it is referenced.
  owned_handle<uv_timer_t> reference_{};
  bool turning_ = false;
  bool armed_ = true;
  bool referenced_ = false;
  bool stopped_ = false;
  uint64_t last_activity_ns_ = 0;
  uint64_t armed_at_ns_ = 0;
  size_t open_handles_ = 0;
  // Each waits in a thread: those for devices are soon over.
  driver_threads for_devices_{8};
  driver_threads for_peers_{64};
  std::function<void()> closed_;
};

}  // namespace verbmq
