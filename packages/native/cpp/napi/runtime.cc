#include "napi/runtime.h"

#include <utility>

#include "napi/values.h"

namespace verbmq {

runtime::runtime(Napi::Env env, shared_arrays arrays, Napi::Function dispatch, Napi::Object arrays_owner)
    : env_(env),
      arrays_(arrays),
      dispatch_(Napi::Persistent(dispatch)),
      arrays_owner_(Napi::Persistent(arrays_owner)),
      context_(env, "verbmq") {}

runtime::~runtime() = default;

runtime* runtime::create(Napi::Env env, const library_paths& paths, polling_policy policy, shared_arrays arrays,
                         Napi::Function dispatch, Napi::Object arrays_owner) {
  uv_loop_t* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) throw Napi::Error::New(env, "there is no event loop");

  std::unique_ptr<runtime, void (*)(runtime*)> made(new runtime(env, arrays, dispatch, arrays_owner),
                                                    [](runtime* self) { delete self; });
  event_receiver& receiver = *made;
  made->driver_ = std::make_unique<loop_driver>(loop, policy, receiver);
  made->engine_ = std::make_unique<engine>(verbs_library::open(paths), *made->driver_);
  made->driver_->start(*made->engine_);
  // The environment may end at any time, a worker's in the middle of traffic: the loop then waits for this hook.
  napi_add_async_cleanup_hook(
      env, [](napi_async_cleanup_hook_handle, void* self) { static_cast<runtime*>(self)->end(); }, made.get(),
      &made->cleanup_);
  return made.release();
}

bool runtime::take_submissions() {
  const auto count = static_cast<size_t>(std::exchange(arrays_.ring[ring_count], 0));
  if (count == 0 || count > arrays_.submissions_capacity) return false;
  engine_->submit(arrays_.submissions, count);
  return true;
}

void runtime::pump() {
  if (!open()) return;
  take_submissions();
  engine_->flush();
  if (delivering_) return;
  driver_->submitted();
  driver_->update_reference();
}

void runtime::begin_turn() {
  napi_open_handle_scope(env_, &turn_);
  dispatch_value_ = dispatch_.Value();
  napi_get_undefined(env_, &undefined_);
  open_callback();
}

void runtime::end_turn() {
  run_ticks();
  napi_close_handle_scope(env_, std::exchange(turn_, nullptr));
}

bool runtime::deliver() {
  if (!open()) return false;
  const bool is_turn = turn_ == nullptr;
  if (is_turn) begin_turn();
  delivering_ = true;
  size_t count = engine_->events().take(arrays_.events, arrays_.events_capacity);
  do {
    if (count > 0) {
      arrays_.ring[ring_delivering] = static_cast<int32_t>(count);
      dispatch();
      // Answers leave before anything is done that they need not wait for.
      if (!ending_ && take_submissions()) engine_->flush();
      run_ticks();
    }
    if (ending_) break;
    take_submissions();
    engine_->flush();
    // For the next events: when they come, nothing is to be done before JavaScript is called.
    if (callback_ == nullptr) open_callback();
    count = engine_->events().take(arrays_.events, arrays_.events_capacity);
  } while (count > 0);
  delivering_ = false;
  arrays_.ring[ring_delivering] = 0;
  if (is_turn) end_turn();
  if (ending_) {
    end_now();
    return false;
  }
  driver_->update_reference();
  return true;
}

// A plain call within a callback scope, whose end is in `run_ticks`: napi_make_callback would end it within the call, and make
// the answers wait for that.
void runtime::dispatch() {
  napi_value result = nullptr;
  const napi_status status = napi_call_function(env_, undefined_, dispatch_value_, 0, nullptr, &result);
  if (status == napi_pending_exception) {
    // src/binding.ts lets nothing escape; what comes here is a fault of this package or a worker that ends.
    napi_value exception = nullptr;
    napi_get_and_clear_last_exception(env_, &exception);
    napi_fatal_exception(env_, exception);
  }
  if (status != napi_ok) arrays_.ring[ring_count] = 0;
}

void runtime::open_callback() {
  if (napi_open_callback_scope(env_, nullptr, context_, &callback_) != napi_ok) callback_ = nullptr;
}

void runtime::run_ticks() {
  if (callback_ != nullptr) napi_close_callback_scope(env_, std::exchange(callback_, nullptr));
}

void runtime::end() {
  if (ending_) return;
  ending_ = true;
  if (!delivering_) end_now();
}

void runtime::end_now() {
  if (ended_) return;
  ended_ = true;
  // Handles stop before the descriptors under them are closed.
  driver_->stop();
  engine_.reset();
  driver_->close([this] {
    if (cleanup_ != nullptr) napi_remove_async_cleanup_hook(cleanup_);
    delete this;
  });
}

}  // namespace verbmq
