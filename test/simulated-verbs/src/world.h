// All state of the simulation and the one lock over it.
//
// One lock is enough: a test wants every interleaving to be possible and none to be a data race of the simulation.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "faults.h"
#include "objects.h"
#include "settings.h"

namespace simverbs {

struct cm_id;

using lock_guard = std::unique_lock<std::mutex>;

struct world {
  std::mutex mutex;
  settings set;
  fault_plan faults;
  std::map<std::string, int64_t> live;
  std::map<std::string, int64_t> counts;

  std::vector<device*> devices;  // never freed, as in libibverbs
  std::unordered_map<uint32_t, queue_pair*> queue_pairs;           // by number
  std::unordered_map<uint32_t, completion_queue*> completion_queues;  // by handle
  std::unordered_map<uint32_t, memory_region*> by_lkey;
  std::unordered_map<uint32_t, memory_region*> by_rkey;
  std::unordered_map<uint32_t, memory_window*> windows_by_rkey;
  std::map<uint32_t, cm_id*> cm_ids;  // by handle, in order of making
  std::unordered_multimap<uint16_t, cm_id*> bound_ids;  // by port, in network order

  /// A number no object has had before.
  uint32_t next_handle() { return ++last_handle_; }
  std::set<const void*> contexts;  // that were given to any object
  bool fork_protected = false;  // for good, as in libibverbs
  uint32_t last_destroyed_queue_pair = 0;  // 0 when its number was given away
  queue_pair* find_queue_pair(uint32_t number) {
    const auto found = queue_pairs.find(number);
    return found == queue_pairs.end() ? nullptr : found->second;
  }

 private:
  uint32_t last_handle_ = 0;
};

/// Lives as long as the process: the hardware thread never ends before it.
world& the_world();

/// A use that a real library answers by waiting for ever. Says so and aborts, or hangs when a test asked for that.
[[noreturn]] void misuse(lock_guard& lock, const char* what);
/// A use that a real library lets pass, and that goes wrong now and then. Says so and aborts.
[[noreturn]] void misuse(const char* what);

/// Waits within a call until so much time has passed since it began; a test may change that meanwhile. Others go on.
void wait_in_call(lock_guard& lock, const int64_t& setting_us);

/// The device with the addresses, made when first asked for.
device* main_device();
void make_devices();

/// Counts a call and tells the errno it shall fail with, or 0. The lock is held.
inline int call_fails(const char* symbol) { return the_world().faults.next_call(symbol); }

/// Counts contexts that an object is given after another one, which events may still be on their way of.
void note_context(const void* given);

/// Counts pinned memory against the limit; false when it does not fit.
bool pin(size_t bytes);
void unpin(size_t bytes);

/// Reports an asynchronous event on one context, or on all that have the device open.
void raise_async(ibv_context* where, ibv_async_event event);
void raise_async_on_device(device* where, ibv_event_type type, int port);

}  // namespace simverbs
