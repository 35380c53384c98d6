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
  made->driver_ = std::make_unique<loop_driver>(loop, policy, [self = made.get()] { return self->deliver(); });
  made->engine_ = std::make_unique<engine>(verbs_library::open(paths), *made->driver_);
  made->driver_->start(*made->engine_);
  // The environment may end at any time, a worker's in the middle of traffic: the loop then waits for this hook.
  napi_add_async_cleanup_hook(
      env, [](napi_async_cleanup_hook_handle, void* self) { static_cast<runtime*>(self)->end(); }, made.get(),
      &made->cleanup_);
  return made.release();
}

void runtime::take_submissions() {
  const auto count = static_cast<size_t>(arrays_.ring[ring_count]);
  arrays_.ring[ring_count] = 0;
  if (count > 0 && count <= arrays_.submissions_capacity) engine_->submit(arrays_.submissions, count);
}

void runtime::pump() {
  if (!open()) return;
  take_submissions();
  engine_->flush();
  if (delivering_) return;
  driver_->submitted();
  driver_->update_reference();
}

bool runtime::deliver() {
  if (!open()) return false;
  delivering_ = true;
  arrays_.ring[ring_delivering] = 1;
  {
    Napi::HandleScope scope(env_);
    size_t count = engine_->events().take(arrays_.events, arrays_.events_capacity);
    do {
      if (count > 0) {
        napi_value argument = nullptr;
        napi_value result = nullptr;
        napi_create_uint32(env_, static_cast<uint32_t>(count), &argument);
        const napi_status status = napi_make_callback(env_, context_, arrays_owner_.Value(), dispatch_.Value(), 1,
                                                      &argument, &result);
        if (status == napi_pending_exception) {
          // src/binding.ts lets nothing escape; what comes here is a fault of this package or a worker that ends.
          napi_value exception = nullptr;
          napi_get_and_clear_last_exception(env_, &exception);
          napi_fatal_exception(env_, exception);
        }
        if (status != napi_ok) arrays_.ring[ring_count] = 0;
      }
      if (ending_) break;
      take_submissions();
      engine_->flush();
      count = engine_->events().take(arrays_.events, arrays_.events_capacity);
    } while (count > 0);
  }
  delivering_ = false;
  arrays_.ring[ring_delivering] = 0;
  if (ending_) {
    end_now();
    return false;
  }
  driver_->update_reference();
  return true;
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
  driver_->close([this] {
    if (cleanup_ != nullptr) napi_remove_async_cleanup_hook(cleanup_);
    delete this;
  });
  engine_.reset();
}

}  // namespace verbmq
