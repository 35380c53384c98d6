#include "settings.h"

#include <cstring>

namespace simverbs {

int64_t* settings::find(const char* name) {
#define SIMVERBS_FIELD(field, value) \
  if (std::strcmp(name, #field) == 0) return &field;
  SIMVERBS_SETTINGS(SIMVERBS_FIELD)
#undef SIMVERBS_FIELD
  return nullptr;
}

bool settings::take_personality(const char* name) {
  settings fresh;
  if (std::strcmp(name, "rxe") == 0) {
    // The defaults: completions of both directions come in batches, flushes come late.
  } else if (std::strcmp(name, "siw") == 0) {
    fresh.iwarp = 1;
    fresh.atomics = 0;
    fresh.immediates = 0;
    fresh.memory_windows = 0;
    fresh.max_sge = 6;
    fresh.max_inline_bytes = 80;
    fresh.max_message_bytes = INT32_MAX;
    fresh.flush_delay_us = 0;
    fresh.sends_overtake_reads = 1;
    fresh.shared_receives_in_domain_of_queue_pair = 0;
    fresh.vendor_id = 0x51;
  } else if (std::strcmp(name, "mlx") == 0) {
    fresh.max_qp_wr = 8192;
    fresh.max_sge = 30;
    fresh.max_rd_atomic = 16;
    fresh.max_inline_bytes = 828;
    fresh.max_cqe = 4194303;
    fresh.max_message_bytes = 1 << 30;
    fresh.slots_freed_at_poll = 1;
    fresh.completions_removed_at_destroy = 1;
    fresh.flush_delay_us = 50;
    fresh.shared_receives_in_domain_of_queue_pair = 0;
    fresh.last_receive_events = 1;
    fresh.vendor_id = 0x2c9;
  } else {
    return false;
  }
  *this = fresh;
  return true;
}

}  // namespace simverbs
