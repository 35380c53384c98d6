// What the device can do and how long things take. A personality is a set of these values.
#pragma once

#include <cstdint>

namespace simverbs {

// name, default. Units are in the names; -1 means no limit, or never.
#define SIMVERBS_SETTINGS(setting)                                                                                  \
  /* limits that ibv_query_device reports */                                                                        \
  setting(max_qp, 4096)                                                                                             \
  setting(max_qp_wr, 16384)                                                                                         \
  setting(max_sge, 32)                                                                                              \
  setting(max_cq, 4096)                                                                                             \
  setting(max_cqe, 32767)                                                                                           \
  setting(max_mr, 65536)                                                                                            \
  setting(max_pd, 1024)                                                                                             \
  setting(max_srq, 1024)                                                                                            \
  setting(max_srq_wr, 32768)                                                                                        \
  setting(max_rd_atomic, 128)                                                                                       \
  setting(max_message_bytes, 0x800000)                                                                              \
  /* limits that nothing reports */                                                                                 \
  setting(max_inline_bytes, 480)                                                                                    \
  setting(memlock_bytes, -1)                                                                                        \
  /* places that a send queue lacks of what it was granted */                                                       \
  setting(missing_send_slots, 0)                                                                                        \
  /* kinds of behaviour, 0 or 1 */                                                                                  \
  setting(iwarp, 0)                                                                                                 \
  setting(atomics, 1)                                                                                               \
  setting(immediates, 1)                                                                                            \
  setting(memory_windows, 1)                                                                                        \
  setting(slots_freed_at_poll, 0)                                                                                   \
  setting(completions_removed_at_destroy, 0)                                                                        \
  setting(sends_overtake_reads, 0)                                                                                  \
  setting(atomic_results_big_endian, 0)                                                                             \
  setting(fork_protection_unneeded, 1)                                                                              \
  /* completion channels have descriptors that no event loop can watch */                                              \
  setting(unwatchable_channels, 0)                                                                                  \
  /* writes are posted as writes with immediate data, which take a receive: a peer may do so */                       \
  setting(writes_carry_immediates, 0)                                                                               \
  /* a queue pair in error refuses work, where others flush it */                                                   \
  setting(work_refused_in_error, 0)                                                                                 \
  /* a work request that is refused is not named */                                                                    \
  setting(refusals_unnamed, 0)                                                                                      \
  /* a queue pair gets the number of the one that was destroyed last */                                              \
  setting(queue_pair_numbers_reused, 0)                                                                             \
  /* completions on their way to a queue get there just before it is armed, so that no event tells of them */        \
  setting(completions_race_arming, 0)                                                                               \
  /* where the memory of a shared receive is looked for; else in the domain of the shared receive queue */               \
  setting(shared_receives_in_domain_of_queue_pair, 1)                                                               \
  /* says that a queue pair in error takes no more shared receives */                                               \
  setting(last_receive_events, 0)                                                                                   \
  setting(vendor_id, 0xffffff)                                                                                      \
  /* the device found first is another one, without addresses */                                                    \
  setting(decoy_devices, 0)                                                                                         \
  /* a device that was removed is found as before: its removal is not over */                                       \
  setting(removed_device_listed, 0)                                                                                 \
  /* a misuse that hangs with a real library aborts here with a message, unless this is 1 */                        \
  setting(hang_on_misuse, 0)                                                                                        \
  /* times */                                                                                                       \
  setting(flush_delay_us, 2000)                                                                                     \
  setting(send_completion_delay_us, 0)                                                                              \
  setting(receive_completion_delay_us, 0)                                                                           \
  setting(completion_jitter_us, 0)                                                                                  \
  setting(jitter_seed, 1)                                                                                           \
  setting(cq_event_delay_us, 0)                                                                                     \
  setting(cm_event_delay_us, 0)                                                                                     \
  setting(packet_us, 0)                                                                                             \
  setting(read_us, 20)                                                                                              \
  setting(ack_timeout_us, 67000)                                                                                    \
  setting(cm_packet_us, 50)                                                                                         \
  setting(cm_timeout_us, 4000000)                                                                                   \
  setting(timewait_us, 20000)                                                                                       \
  /* iWARP: how long rdma_connect waits for the peer before it returns */                                           \
  setting(connect_blocks_us, 0)                                                                                     \
  /* How long ibv_destroy_qp waits for what the device still does */                                                \
  setting(destroy_blocks_us, 0)                                                                                     \
  /* How long ibv_open_device waits for the driver; librdmacm's own contexts are there already */                   \
  setting(open_blocks_us, 0)

struct settings {
#define SIMVERBS_FIELD(name, value) int64_t name = value;
  SIMVERBS_SETTINGS(SIMVERBS_FIELD)
#undef SIMVERBS_FIELD

  /// The field of that name, or nullptr.
  int64_t* find(const char* name);
  /// False when there is no such personality.
  bool take_personality(const char* name);
};

}  // namespace simverbs
