// Which faults come next. A plan is made by a test and used up by the simulation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace simverbs {

enum class hold_point { send_completions, receive_completions, cq_events, cm_events, hardware };

/// Nothing for a name that is none.
std::optional<hold_point> hold_point_named(const char* name);

class fault_plan {
 public:
  // Calls
  bool fail_call(const char* symbol, int skip, int times, int error_number);
  int next_call(const char* symbol);
  /// -1 for a symbol that has no fault point.
  int64_t calls(const char* symbol) const;

  // Holds; 0 stands for every queue pair.
  void hold(hold_point point, uint32_t queue_pair) { held_[point].insert(queue_pair); }
  void release(hold_point point, uint32_t queue_pair) {
    if (queue_pair == 0) held_[point].clear();
    else held_[point].erase(queue_pair);
  }
  bool is_held(hold_point point, uint32_t queue_pair) const;

  // One-shot faults
  bool take_dropped_cq_event();
  bool take_dropped_cm_event(int type);
  struct replacement {
    int type;
    int status;
  };
  std::optional<replacement> take_replacement(int type);
  bool take_receiver_not_ready();
  /// The status that the send which begins now shall fail with, or 0.
  int next_work_status();

  int dropped_cq_events = 0;
  std::map<int, int> dropped_cm_events;
  std::map<int, replacement> replacements;
  int receiver_not_ready = 0;
  struct work_failure {
    int skip;
    int status;
  };
  std::vector<work_failure> work_failures;

 private:
  struct call_failure {
    int skip;
    int times;
    int error_number;
  };
  std::unordered_map<std::string, std::vector<call_failure>> failures_;
  std::unordered_map<std::string_view, int64_t> calls_;  // keys are literals of the callers
  std::map<hold_point, std::set<uint32_t>> held_;
};

}  // namespace simverbs
