// One engine inside one JavaScript environment: the shared arrays, the delivery of events, and the end.
//
// It lives on the heap by itself, because it must outlive both the JavaScript object (until the loop has closed the
// handles) and nothing else. It deletes itself when all is closed.
#pragma once

#include <napi.h>

#include <memory>

#include "engine/engine.h"
#include "napi/loop_driver.h"

namespace verbmq {

/// Words about submissions and events; see `Ring` in src/binding.ts.
enum ring_word : size_t { ring_count = 0, ring_delivering = 1, ring_words = 2 };

/// Arrays that both languages read and write; they must not be detached or resized.
struct shared_arrays {
  event_record* events;
  size_t events_capacity;
  event_record* submissions;
  size_t submissions_capacity;
  int32_t* ring;  // ring_word
};

class runtime final : private event_receiver {
 public:
  /// `dispatch` is called when there are records in the events array; ring_delivering says how many. It is called in no
  /// asynchronous context: the connections of one engine are made in many. `arrays_owner` keeps the memory of `arrays` alive.
  /// Throws verbs_error.
  static runtime* create(Napi::Env env, const library_paths& paths, polling_policy policy, shared_arrays arrays,
                         Napi::Function dispatch, Napi::Object arrays_owner);

  engine& get() { return *engine_; }
  bool open() const noexcept { return engine_ != nullptr && !ending_; }

  /// After any call that changed the engine: takes what was submitted and posts it.
  void pump();
  /// Ends everything without a farewell. May be called more than once, and during a delivery.
  void end();
  /// The JavaScript object is gone or is going.
  void detach() noexcept { end(); }

 private:
  runtime(Napi::Env env, shared_arrays arrays, Napi::Function dispatch, Napi::Object arrays_owner);
  ~runtime() override;

  // event_receiver
  bool deliver() override;
  void begin_turn() override;
  void end_turn() override;

  /// Calls JavaScript, which reads the events.
  void dispatch();
  /// What follows, up to `run_ticks`, is one callback of the event loop.
  void open_callback();
  /// Runs process.nextTick() and microtasks, as at the end of any callback.
  void run_ticks();
  /// Answers whether there was anything.
  bool take_submissions();
  void end_now();

  Napi::Env env_;
  shared_arrays arrays_;
  Napi::FunctionReference dispatch_;
  Napi::ObjectReference arrays_owner_;
  Napi::AsyncContext context_;
  std::unique_ptr<engine> engine_;
  std::unique_ptr<loop_driver> driver_;
  napi_async_cleanup_hook_handle cleanup_ = nullptr;
  napi_handle_scope turn_ = nullptr;
  napi_callback_scope callback_ = nullptr;
  // Valid in a turn.
  napi_value dispatch_value_ = nullptr;
  napi_value undefined_ = nullptr;
  bool delivering_ = false;
  bool ending_ = false;
  bool ended_ = false;
};

}  // namespace verbmq
