// The control functions for JavaScript: this is a second, tiny library, which finds the first by its path.
//
// One function, call(path, name, ...arguments): arguments are strings or numbers, the result is a number. An answer of
// -1 with errno set throws. support/simulated-verbs.ts gives every control its types.
//
// Node-API is stable, so the little of it that is used is declared here: no headers of any Node are needed.
#include <dlfcn.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

extern "C" {
typedef struct napi_env__* napi_env;
typedef struct napi_value__* napi_value;
typedef struct napi_callback_info__* napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
enum napi_status : int { napi_ok = 0 };
enum napi_valuetype : int { napi_number = 3, napi_string = 4 };

napi_status napi_throw_error(napi_env, const char* code, const char* message);
napi_status napi_get_value_string_utf8(napi_env, napi_value, char* target, size_t room, size_t* bytes);
napi_status napi_get_value_int64(napi_env, napi_value, int64_t* result);
napi_status napi_typeof(napi_env, napi_value, napi_valuetype* result);
napi_status napi_get_cb_info(napi_env, napi_callback_info, size_t* count, napi_value* arguments, napi_value* receiver,
                             void** data);
napi_status napi_create_int64(napi_env, int64_t value, napi_value* result);
napi_status napi_create_function(napi_env, const char* name, size_t name_bytes, napi_callback, void* data,
                                 napi_value* result);
napi_status napi_set_named_property(napi_env, napi_value object, const char* name, napi_value value);
}

namespace {

napi_value fail(napi_env env, const std::string& message) {
  napi_throw_error(env, "ERR_SIMVERBS", message.c_str());
  return nullptr;
}

std::string text(napi_env env, napi_value value) {
  size_t bytes = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &bytes) != napi_ok) return {};
  std::string result(bytes, '\0');
  napi_get_value_string_utf8(env, value, result.data(), bytes + 1, &bytes);
  return result;
}

template <typename function>
function look_up(void* library, const std::string& name) {
  void* symbol = dlsym(library, name.c_str());
  function result = nullptr;
  std::memcpy(&result, &symbol, sizeof symbol);
  return result;
}

// How each control is called, by the kinds of its arguments: s for a string, i for a number.
int64_t invoke(void* library, const std::string& name, const std::string& shape, const std::string* strings,
               const int64_t* numbers, bool& known) {
  const std::string symbol = "simverbs_" + name;
  const auto int_of = [&](int i) { return static_cast<int>(numbers[i]); };
  known = dlsym(library, symbol.c_str()) != nullptr;
  if (!known) return 0;
  const char* first = strings[0].c_str();
  if (name == "live" || name == "count" || name == "calls" || name == "held") {
    known = shape == "s";
    return known ? look_up<int64_t (*)(const char*)>(library, symbol)(first) : 0;
  }
  if (name == "set") {
    known = shape == "si";
    return known ? look_up<int (*)(const char*, int64_t)>(library, symbol)(first, numbers[0]) : 0;
  }
  if (name == "get") {
    int64_t value = 0;
    known = shape == "s";
    if (!known) return 0;
    return look_up<int (*)(const char*, int64_t*)>(library, symbol)(first, &value) == 0 ? value : -1;
  }
  if (name == "hold" || name == "release") {
    known = shape == "si";
    return known ? look_up<int (*)(const char*, uint32_t)>(library, symbol)(first, static_cast<uint32_t>(numbers[0]))
                 : 0;
  }
  if (shape == "s") return look_up<int (*)(const char*)>(library, symbol)(first);
  if (shape == "siii") {
    return look_up<int (*)(const char*, int, int, int)>(library, symbol)(first, int_of(0), int_of(1), int_of(2));
  }
  if (shape == "sii") {
    return look_up<int (*)(const char*, int, int)>(library, symbol)(first, int_of(0), int_of(1));
  }
  if (shape == "iii") return look_up<int (*)(int, int, int)>(library, symbol)(int_of(0), int_of(1), int_of(2));
  if (shape == "ii") return look_up<int (*)(int, int)>(library, symbol)(int_of(0), int_of(1));
  if (name == "set_port") {
    look_up<void (*)(int)>(library, symbol)(int_of(0));
    return 0;
  }
  if (shape == "i") return look_up<int (*)(int)>(library, symbol)(int_of(0));
  if (shape.empty()) {
    look_up<void (*)()>(library, symbol)();
    return 0;
  }
  known = false;
  return 0;
}

napi_value call(napi_env env, napi_callback_info info) {
  constexpr size_t most = 8;
  size_t count = most;
  napi_value values[most];
  napi_get_cb_info(env, info, &count, values, nullptr, nullptr);
  if (count < 2) return fail(env, "call(path, name, ...arguments)");
  const std::string path = text(env, values[0]);
  const std::string name = text(env, values[1]);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(env, dlerror());

  std::string shape;
  std::string strings[most];
  int64_t numbers[most] = {};
  size_t string_count = 0;
  size_t number_count = 0;
  for (size_t i = 2; i < count && i < most; ++i) {
    napi_valuetype type{};
    napi_typeof(env, values[i], &type);
    if (type == napi_string) {
      strings[string_count++] = text(env, values[i]);
      shape += 's';
    } else if (type == napi_number) {
      napi_get_value_int64(env, values[i], &numbers[number_count++]);
      shape += 'i';
    } else {
      return fail(env, "arguments are strings and numbers");
    }
  }
  bool known = false;
  errno = 0;
  const int64_t result = invoke(library, name, shape, strings, numbers, known);
  if (!known) return fail(env, "there is no control " + name + "(" + shape + ")");
  if (result == -1 && errno == EINVAL) return fail(env, name + ": no such name or value");
  napi_value answer;
  napi_create_int64(env, result, &answer);
  return answer;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  constexpr const char* name = "call";
  napi_value function;
  napi_create_function(env, name, std::strlen(name), call, nullptr, &function);
  napi_set_named_property(env, exports, name, function);
  return exports;
}
