// The addon's exports. It can be loaded by any number of environments of a process; nothing here is shared by them
// but the libraries, which are opened once.
#include <napi.h>
#include <unistd.h>

#include "engine/huge_pages.h"
#include "engine/memory_layout.h"
#include "engine/receive_pool.h"
#include "engine/wire.h"
#include "napi/engine_object.h"
#include "napi/probe_function.h"

namespace verbmq {

namespace {

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  exports.Set("Engine", engine_object::define(env));
  exports.Set("probe", Napi::Function::New(env, probe, "probe"));

  // Numbers that both languages compute with.
  Napi::Object layout = Napi::Object::New(env);
  const auto number = [&](const char* name, double value) { layout.Set(name, Napi::Number::New(env, value)); };
  number("pageBytes", static_cast<double>(sysconf(_SC_PAGESIZE)));
  number("headerBytes", frame_header::bytes);
  number("controlReceiveSlots", control_receive_slots);
  number("sharedSlotsPerConnection", receive_pool::slots_per_connection);
  number("sharedDataSlots", receive_pool::guaranteed_data_slots);
  number("controlAreaBytes", control_area_bytes);
  number("gateWords", gate_words);
  number("noteBytes", note_text_bytes);
  exports.Set("layout", layout);
  return exports;
}

// Finds the page boundary in a buffer: JavaScript cannot see addresses.
Napi::Value offset_of_page(const Napi::CallbackInfo& info) {
  auto buffer = info[0].As<Napi::ArrayBuffer>();
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(buffer.Data());
  return Napi::Number::New(info.Env(), static_cast<double>((page - address % page) % page));
}

void prefer_huge_pages_for(const Napi::CallbackInfo& info) {
  auto buffer = info[0].As<Napi::ArrayBuffer>();
  prefer_huge_pages(static_cast<uint8_t*>(buffer.Data()), buffer.ByteLength());
}

Napi::Object initialise_all(Napi::Env env, Napi::Object exports) {
  exports.Set("offsetOfPage", Napi::Function::New(env, offset_of_page, "offsetOfPage"));
  exports.Set("preferHugePages", Napi::Function::New(env, prefer_huge_pages_for, "preferHugePages"));
  return initialise(env, exports);
}

}  // namespace

NODE_API_MODULE(verbmq_native, initialise_all)

}  // namespace verbmq
