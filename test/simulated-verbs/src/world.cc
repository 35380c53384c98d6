#include "world.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "hardware.h"

namespace simverbs {

world& the_world() {
  static auto& made = *new world();
  return made;
}

void misuse(lock_guard& lock, const char* what) {
  const bool hang = the_world().set.hang_on_misuse != 0;
  std::fprintf(stderr, "simulated verbs: %s; a real library would %s\n", what,
               hang ? "wait for ever, and so does this" : "wait for ever here");
  if (!hang) std::abort();
  lock.unlock();
  for (;;) pause();
}

void misuse(const char* what) {
  std::fprintf(stderr, "simulated verbs: %s; with a real library this would go wrong now and then\n", what);
  std::abort();
}

void wait_in_call(lock_guard& lock, const int64_t& setting_us) {
  for (const int64_t from_us = now_us(); now_us() - from_us < setting_us;) {
    lock.unlock();
    usleep(200);
    lock.lock();
  }
}

void note_context(const void* given) {
  world& w = the_world();
  if (given != nullptr && !w.contexts.insert(given).second) ++w.counts["contexts-reused"];
}

bool pin(size_t bytes) {
  world& w = the_world();
  int64_t& pinned = w.live["pinned-bytes"];
  if (w.set.memlock_bytes >= 0 && pinned + static_cast<int64_t>(bytes) > w.set.memlock_bytes) return false;
  pinned += static_cast<int64_t>(bytes);
  return true;
}

void unpin(size_t bytes) { the_world().live["pinned-bytes"] -= static_cast<int64_t>(bytes); }

}  // namespace simverbs
