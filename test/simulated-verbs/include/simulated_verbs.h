// Control of the simulated RDMA device, for tests: what it can do, how long things take, and which faults come next.
//
// All functions may be called from any thread. Those that take a name answer -1 (and errno EINVAL) for a name that
// they do not know, so that a misspelt fault never makes a test pass. `queue_pair` is a queue pair number, 0 for all.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Forgets every fault and setting, releases what is held, brings the device back, and takes the personality "rxe",
/// "siw" or "mlx". Objects that exist stay as they are; the kind of the device changes for contexts opened later.
int simverbs_reset(const char* personality);

/// Changes one setting (README.md lists them); it holds from the next call or packet on.
int simverbs_set(const char* setting, int64_t value);
int simverbs_get(const char* setting, int64_t* value);

/// Lets calls of `symbol` (say "ibv_reg_mr", or "ibv_post_send" for the inline ones) fail with `error_number`:
/// `skip` calls still succeed, then `times` fail (-1: all). Fails at once when the library has no such fault.
int simverbs_fail_call(const char* symbol, int skip, int times, int error_number);
/// How often `symbol` was called since the last reset.
int64_t simverbs_calls(const char* symbol);

/// Holds back everything that would pass a point until it is released: "send-completions", "receive-completions"
/// (the hardware has finished, the completion queue does not say so yet), "cq-events", "cm-events", or "hardware"
/// (posted sends do not start). Order within one queue always stays.
int simverbs_hold(const char* point, uint32_t queue_pair);
int simverbs_release(const char* point, uint32_t queue_pair);
/// How many things wait at a point now.
int64_t simverbs_held(const char* point);

/// Loses the next `count` completion events: the queue counts as not armed any more, but nobody is told.
int simverbs_drop_cq_events(int count);
/// Loses the next `count` cm events of a type (rdma_cm_event_type), as a lossy fabric would.
int simverbs_drop_cm_events(int type, int count);
/// The next cm event of `type` becomes `other` with `status`.
int simverbs_replace_cm_event(int type, int other, int status);
/// Reports an event that nobody asked for on every id in that state ("address-resolved", "connecting", "connected",
/// "listening", …: cm_state in src/cm_objects.h); returns how many there were.
int simverbs_raise_cm_event(const char* state, int type, int status);

/// Reports an asynchronous event (ibv_event_type) and does nothing else: on the oldest queue pair or completion queue
/// that an application has, or on the device or its port, as the type demands.
int simverbs_raise_async_event(int type);

/// Answers the next `count` sends that reach a receiver with receiver-not-ready, posted receives or not.
int simverbs_receiver_not_ready(int count);
/// Lets a later send (`skip` of them still work) complete with an ibv_wc_status and moves its queue pair to error.
int simverbs_fail_work(int skip, int status);
/// Moves a queue pair to the error state, as hardware does; -1 when there is none.
int simverbs_queue_pair_error(uint32_t queue_pair);

/// Unplugs the device: removal events on every id, a fatal asynchronous event, every queue pair in error.
void simverbs_remove_device(void);
void simverbs_restore_device(void);
/// Takes the port down or up, with its asynchronous event. While it is down no packet arrives.
void simverbs_set_port(int active);

/// Live objects that the application made: "context", "pd", "mr", "mw", "cq", "qp", "srq", "comp-channel",
/// "cm-channel", "cm-id", and "pinned-bytes".
int64_t simverbs_live(const char* kind);
/// Live memory regions that were registered for at least one of these accesses, which are ibv_access_flags.
int simverbs_regions(int access);
/// What has happened since the last reset: "cq-overruns", "rnr-answers", "rnr-wait-us", "retries", "flushed", "send-chains"
/// and "receive-chains" (calls of ibv_post_send and ibv_post_recv), "inline" and "signalled" (work requests posted so),
/// "sends", "reads", "writes", "atomics", "cq-events", "lost-cq-events", "cm-events", "async-events", "contexts-reused", "closed-devices"
/// (by librdmacm, which had opened them), "busy" (calls refused because children live).
int64_t simverbs_count(const char* what);

#ifdef __cplusplus
}
#endif
