// The faults that a test can ask for, and the ends that hardware brings about.
#include <fcntl.h>
#include <poll.h>

#include <cerrno>

#include "fixture.h"

namespace {

bool on_iwarp() {
  int64_t iwarp = 0;
  CHECK_EQUAL(simverbs_get("iwarp", &iwarp), 0);
  return iwarp != 0;
}

void fails_calls() {
  CHECK_EQUAL(simverbs_fail_call("ibv_alloc_everything", 0, 1, EIO), -1);
  connection both;
  CHECK_EQUAL(simverbs_fail_call("ibv_post_send", 1, 2, ENOMEM), 0);
  CHECK_EQUAL(both.active.try_send(1, 0, 8), 0);
  CHECK_EQUAL(both.active.try_send(2, 0, 8), ENOMEM);
  CHECK_EQUAL(both.active.try_send(3, 0, 8), ENOMEM);
  CHECK_EQUAL(both.active.try_send(4, 0, 8), 0);
  CHECK_EQUAL(simverbs_fail_call("ibv_alloc_pd", 0, 1, ENOMEM), 0);
  CHECK(ibv_alloc_pd(both.active.id->verbs) == nullptr);
  CHECK_EQUAL(errno, ENOMEM);
  CHECK_EQUAL(simverbs_set("memlock_bytes", 65536), 0);
  CHECK(ibv_create_cq(both.active.id->verbs, 4000, nullptr, nullptr, 0) == nullptr);
  CHECK_EQUAL(errno, ENOMEM);
}

void completions_of_two_directions_out_of_order() {
  connection both;
  CHECK_EQUAL(simverbs_hold("send-completions", both.qp_num_of_active()), 0);
  both.active.send(1, 0, 8);
  CHECK_EQUAL(both.passive.wait().wr_id, 100u);
  both.passive.send(2, 0, 8);
  CHECK_EQUAL(both.active.wait().wr_id, 50u);
  CHECK(both.active.quiet());
  CHECK_EQUAL(simverbs_held("send-completions"), 1);
  CHECK_EQUAL(simverbs_release("send-completions", both.qp_num_of_active()), 0);
  CHECK_EQUAL(both.active.wait().wr_id, 1u);
}

void a_lost_completion_event() {
  connection both;
  CHECK_EQUAL(fcntl(both.passive.channel->fd, F_SETFL, O_NONBLOCK), 0);
  CHECK_EQUAL(simverbs_drop_cq_events(1), 0);
  both.passive.arm();
  both.active.send(1, 0, 8);
  both.passive.wait();
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  CHECK_EQUAL(ibv_get_cq_event(both.passive.channel, &queue, &context), -1);
  both.passive.arm();
  both.active.send(2, 0, 8);
  both.passive.wait();
  both.passive.wait_for_event();
}

void receiver_not_ready() {
  endpoint_options few;
  few.rnr_retry = 2;
  // What the passive side says is what the active side does.
  connection both({}, few);
  ibv_qp_attr attributes{};
  attributes.min_rnr_timer = 1;
  CHECK_EQUAL(ibv_modify_qp(both.passive.id->qp, &attributes, IBV_QP_MIN_RNR_TIMER), 0);
  if (!on_iwarp()) {
    CHECK_EQUAL(simverbs_receiver_not_ready(2), 0);
    both.active.send(1, 0, 8);
    CHECK_EQUAL(both.active.wait().status, IBV_WC_SUCCESS);
    CHECK_EQUAL(both.passive.wait().wr_id, 100u);
    CHECK_EQUAL(simverbs_receiver_not_ready(3), 0);
  } else {
    CHECK_EQUAL(simverbs_receiver_not_ready(1), 0);
  }
  both.active.send(2, 0, 8);
  const ibv_wc failed = both.active.wait();
  CHECK_EQUAL(failed.wr_id, 2u);
  CHECK_EQUAL(failed.status, on_iwarp() ? IBV_WC_SUCCESS : IBV_WC_RNR_RETRY_EXC_ERR);
  if (on_iwarp()) expect_event(both.events, RDMA_CM_EVENT_DISCONNECTED);
}

void overrun() {
  endpoint_options small;
  small.cq_entries = 3;
  connection both({}, small);
  for (uint64_t i = 0; i < 4; ++i) both.active.send(i, 0, 8);
  ibv_async_event event;
  CHECK_EQUAL(ibv_get_async_event(both.passive.id->verbs, &event), 0);
  CHECK_EQUAL(event.event_type, IBV_EVENT_CQ_ERR);
  CHECK(event.element.cq == both.passive.cq);
  ibv_ack_async_event(&event);
  CHECK_EQUAL(ibv_get_async_event(both.passive.id->verbs, &event), 0);
  CHECK_EQUAL(event.event_type, IBV_EVENT_QP_FATAL);
  ibv_ack_async_event(&event);
  ibv_wc entries[8];
  CHECK_EQUAL(ibv_poll_cq(both.passive.cq, 8, entries), 3);
  CHECK_EQUAL(ibv_poll_cq(both.passive.cq, 8, entries), -1);
}

void flush_late_or_never() {
  connection both;
  CHECK_EQUAL(simverbs_set("flush_delay_us", -1), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  CHECK_EQUAL(ibv_modify_qp(both.passive.id->qp, &attributes, IBV_QP_STATE), 0);
  CHECK(both.passive.quiet());
  CHECK_EQUAL(simverbs_set("flush_delay_us", 1000), 0);
  for (uint64_t i = 0; i < 8; ++i) {
    const ibv_wc flushed = both.passive.wait();
    CHECK_EQUAL(flushed.status, IBV_WC_WR_FLUSH_ERR);
    CHECK_EQUAL(flushed.wr_id, 100 + i);
  }
  // Work posted on a queue pair in error is taken, and comes back.
  both.passive.post_receive(3, 0, 8);
  both.passive.send(4, 0, 8);
  ibv_wc flushed = both.passive.wait();
  CHECK_EQUAL(flushed.status, IBV_WC_WR_FLUSH_ERR);
  flushed = both.passive.wait();
  CHECK_EQUAL(flushed.status, IBV_WC_WR_FLUSH_ERR);
}

void completions_of_a_destroyed_queue_pair() {
  connection both;
  both.active.send(1, 0, 8);
  both.passive.wait();
  while (simverbs_count("sends") != 1) {
  }
  rdma_destroy_qp(both.active.id);
  int64_t removed = 0;
  simverbs_get("completions_removed_at_destroy", &removed);
  CHECK_EQUAL(both.active.quiet(), removed != 0);
}

void a_silent_peer() {
  if (on_iwarp()) return;
  CHECK_EQUAL(simverbs_set("ack_timeout_us", 100), 0);
  connection both;
  rdma_destroy_qp(both.passive.id);
  both.active.send(1, 0, 8);
  CHECK_EQUAL(both.active.wait().status, IBV_WC_RETRY_EXC_ERR);
  CHECK_EQUAL(simverbs_count("retries"), 7);
}

void port_down_and_up() {
  connection both;
  simverbs_set_port(0);
  ibv_async_event event;
  CHECK_EQUAL(ibv_get_async_event(both.active.id->verbs, &event), 0);
  CHECK_EQUAL(event.event_type, IBV_EVENT_PORT_ERR);
  ibv_ack_async_event(&event);
  both.active.send(1, 0, 8);
  simverbs_set_port(1);
  CHECK_EQUAL(ibv_get_async_event(both.active.id->verbs, &event), 0);
  CHECK_EQUAL(event.event_type, IBV_EVENT_PORT_ACTIVE);
  ibv_ack_async_event(&event);
  CHECK_EQUAL(both.active.wait().status, IBV_WC_SUCCESS);
}

void device_removal() {
  connection both;
  simverbs_remove_device();
  ibv_async_event event;
  CHECK_EQUAL(ibv_get_async_event(both.active.id->verbs, &event), 0);
  CHECK_EQUAL(event.event_type, IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  for (int i = 0; i < 3; ++i) expect_event(both.events, RDMA_CM_EVENT_DEVICE_REMOVAL);
  for (int i = 0; i < 8; ++i) CHECK_EQUAL(both.passive.wait().status, IBV_WC_WR_FLUSH_ERR);
  int count = 1;
  ibv_device** list = ibv_get_device_list(&count);
  CHECK_EQUAL(count, 0);
  ibv_free_device_list(list);
  CHECK_EQUAL(both.active.try_send(1, 0, 8), EIO);
}

void a_removed_device_that_is_still_listed() {
  CHECK_EQUAL(simverbs_set("decoy_devices", 1), 0);
  CHECK_EQUAL(simverbs_set("removed_device_listed", 1), 0);
  rdma_event_channel* events = rdma_create_event_channel();
  rdma_cm_id* id = listen_on_loopback(events);
  ibv_context* context = id->verbs;
  simverbs_remove_device();
  expect_event(events, RDMA_CM_EVENT_DEVICE_REMOVAL);
  CHECK_EQUAL(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(events);
  ibv_context** list = rdma_get_devices(nullptr);
  CHECK(list[0] == context);
  rdma_free_devices(list);
  CHECK_EQUAL(simverbs_count("closed-devices"), 0);

  CHECK_EQUAL(simverbs_set("removed_device_listed", 0), 0);
  list = rdma_get_devices(nullptr);
  CHECK(list[0] == nullptr);
  rdma_free_devices(list);
  CHECK_EQUAL(simverbs_count("closed-devices"), 1);
  check_nothing_lives();
}

void failed_work_says_little() {
  connection both;
  CHECK_EQUAL(simverbs_fail_work(1, IBV_WC_REM_OP_ERR), 0);
  both.active.send(1, 0, 8);
  both.active.send(2, 0, 8);
  CHECK_EQUAL(both.active.wait().status, IBV_WC_SUCCESS);
  const ibv_wc failed = both.active.wait();
  CHECK_EQUAL(failed.wr_id, 2u);
  CHECK_EQUAL(failed.status, IBV_WC_REM_OP_ERR);
  CHECK_EQUAL(failed.byte_len, 0xeeeeeeeeu);
  CHECK_EQUAL(failed.opcode, IBV_WC_BIND_MW);
}

void cm_events_dropped_and_replaced() {
  rdma_event_channel* events = rdma_create_event_channel();
  rdma_cm_id* listener = listen_on_loopback(events);
  rdma_cm_id* id = nullptr;
  CHECK_EQUAL(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), 0);
  CHECK_EQUAL(simverbs_replace_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT), 0);
  CHECK_EQUAL(rdma_resolve_addr(id, nullptr, &listener->route.addr.src_addr, 1000), 0);
  CHECK_EQUAL(expect_event(events, RDMA_CM_EVENT_ADDR_ERROR).status, -ETIMEDOUT);
  CHECK_EQUAL(rdma_destroy_id(id), 0);
  // A request that gets lost ends when the requester's patience does.
  CHECK_EQUAL(simverbs_set("cm_timeout_us", 2000), 0);
  CHECK_EQUAL(simverbs_drop_cm_events(RDMA_CM_EVENT_CONNECT_REQUEST, 1), 0);
  id = resolve_to(events, listener);
  rdma_conn_param parameters = connection_parameters({});
  CHECK_EQUAL(rdma_connect(id, &parameters), 0);
  CHECK_EQUAL(expect_event(events, RDMA_CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
  CHECK_EQUAL(rdma_destroy_id(id), 0);
  CHECK_EQUAL(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(events);
}

}  // namespace

const test_case fault_cases[] = {
    {"fails-calls", fails_calls},
    {"completions-of-two-directions-out-of-order", completions_of_two_directions_out_of_order},
    {"a-lost-completion-event", a_lost_completion_event},
    {"receiver-not-ready", receiver_not_ready},
    {"overrun", overrun},
    {"flush-late-or-never", flush_late_or_never},
    {"completions-of-a-destroyed-queue-pair", completions_of_a_destroyed_queue_pair},
    {"a-silent-peer", a_silent_peer},
    {"port-down-and-up", port_down_and_up},
    {"device-removal", device_removal},
    {"a-removed-device-that-is-still-listed", a_removed_device_that_is_still_listed},
    {"failed-work-says-little", failed_work_says_little},
    {"cm-events-dropped-and-replaced", cm_events_dropped_and_replaced},
    {nullptr, nullptr},
};
