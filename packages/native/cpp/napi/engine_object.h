// The class `Engine` of the addon; src/binding.ts documents it for JavaScript.
#pragma once

#include <napi.h>

#include "napi/runtime.h"

namespace verbmq {

class engine_object : public Napi::ObjectWrap<engine_object> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit engine_object(const Napi::CallbackInfo& info);
  ~engine_object() override;

 private:
  Napi::Value listen(const Napi::CallbackInfo& info);
  Napi::Value listener_address(const Napi::CallbackInfo& info);
  void close_listener(const Napi::CallbackInfo& info);
  Napi::Value connect(const Napi::CallbackInfo& info);
  void accept(const Napi::CallbackInfo& info);
  void reject(const Napi::CallbackInfo& info);
  void send_close(const Napi::CallbackInfo& info);
  void finish(const Napi::CallbackInfo& info);
  void abort(const Napi::CallbackInfo& info);
  void destroy(const Napi::CallbackInfo& info);
  Napi::Value send_note(const Napi::CallbackInfo& info);
  Napi::Value send_answer(const Napi::CallbackInfo& info);
  Napi::Value say(const Napi::CallbackInfo& info, bool (engine::*send)(handle, note_bytes));
  Napi::Value take_note(const Napi::CallbackInfo& info);
  Napi::Value take_answer(const Napi::CallbackInfo& info);
  Napi::Value take_description(const Napi::CallbackInfo& info);
  Napi::Value take_failure(const Napi::CallbackInfo& info);
  Napi::Value take_device_notices(const Napi::CallbackInfo& info);
  Napi::Value register_memory(const Napi::CallbackInfo& info);
  Napi::Value join_receive_pool(const Napi::CallbackInfo& info);
  Napi::Value make_receive_pool(const Napi::CallbackInfo& info);
  Napi::Value shared_receive_totals(const Napi::CallbackInfo& info);
  void deregister_memory(const Napi::CallbackInfo& info);
  Napi::Value memory_totals(const Napi::CallbackInfo& info);
  Napi::Value pending_calls(const Napi::CallbackInfo& info);
  void flush(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  engine& open_engine(const Napi::CallbackInfo& info);
  static handle handle_argument(const Napi::CallbackInfo& info);

  runtime* runtime_ = nullptr;
};

}  // namespace verbmq
