// Sends, receives, completions and their events.
#include <fcntl.h>
#include <poll.h>

#include <cerrno>

#include "fixture.h"

namespace {

void fill(endpoint& end, size_t offset, uint32_t bytes, uint8_t seed) {
  for (uint32_t i = 0; i < bytes; ++i) end.buffer[offset + i] = static_cast<uint8_t>(seed + i);
}

void ping_pong_by_events() {
  connection both;
  for (int round = 0; round < 50; ++round) {
    both.passive.arm();
    fill(both.active, 8192, 1000, static_cast<uint8_t>(round));
    both.active.send(7, 8192, 1000);
    both.passive.wait_for_event();
    const ibv_wc received = both.passive.wait();
    CHECK_EQUAL(received.status, IBV_WC_SUCCESS);
    CHECK_EQUAL(received.opcode, IBV_WC_RECV);
    CHECK_EQUAL(received.byte_len, 1000u);
    const size_t offset = (received.wr_id - 100) * 4096;
    CHECK_EQUAL(std::memcmp(&both.passive.buffer[offset], &both.active.buffer[8192], 1000), 0);
    both.passive.post_receive(received.wr_id, offset, 4096);
    const ibv_wc sent = both.active.wait();
    CHECK_EQUAL(sent.wr_id, 7u);
    CHECK_EQUAL(sent.status, IBV_WC_SUCCESS);
  }
  CHECK(both.passive.quiet());
}

void keeps_order_and_counts_unsignalled_sends() {
  connection both;
  for (uint64_t i = 0; i < 8; ++i) {
    fill(both.active, 0, 8, static_cast<uint8_t>(i));
    both.active.send(i, 0, 8, IBV_SEND_INLINE | (i == 7 ? IBV_SEND_SIGNALED : 0));
  }
  for (uint64_t i = 0; i < 8; ++i) {
    CHECK_EQUAL(both.passive.wait().wr_id, 100 + i);
    CHECK_EQUAL(both.passive.buffer[i * 4096], i);
  }
  CHECK_EQUAL(both.active.wait().wr_id, 7u);
  CHECK(both.active.quiet());
}

void refuses_more_sends_than_fit() {
  endpoint_options small;
  small.depth = 4;
  small.cq_entries = 8;
  endpoint_options normal;
  connection both(small, normal);
  CHECK_EQUAL(simverbs_hold("hardware", 0), 0);
  for (uint64_t i = 0; i < 4; ++i) both.active.send(i, 0, 8);
  CHECK_EQUAL(both.active.try_send(4, 0, 8), ENOMEM);
  CHECK_EQUAL(simverbs_release("hardware", 0), 0);
  for (uint64_t i = 0; i < 4; ++i) CHECK_EQUAL(both.active.wait().wr_id, i);
  both.active.send(5, 0, 8);
  CHECK_EQUAL(both.active.wait().wr_id, 5u);
  CHECK_EQUAL(simverbs_set("missing_send_slots", 4), 0);
  CHECK_EQUAL(both.active.try_send(6, 0, 8), ENOMEM);
}

void frees_slots_as_the_device_does() {
  endpoint_options small;
  small.depth = 4;
  connection both(small, {});
  for (uint64_t i = 0; i < 4; ++i) both.active.send(i, 0, 8, i == 3 ? IBV_SEND_SIGNALED : 0);
  for (int i = 0; i < 4; ++i) both.passive.wait();
  while (simverbs_held("hardware") != 0) {
  }
  int64_t at_poll = 0;
  simverbs_get("slots_freed_at_poll", &at_poll);
  if (at_poll) CHECK_EQUAL(both.active.try_send(4, 0, 8), ENOMEM);
  CHECK_EQUAL(both.active.wait().wr_id, 3u);
  both.active.send(5, 0, 8);
  CHECK_EQUAL(both.active.wait().wr_id, 5u);
}

void event_only_when_armed_and_once() {
  connection both;
  CHECK_EQUAL(fcntl(both.passive.channel->fd, F_SETFL, O_NONBLOCK), 0);
  both.active.send(1, 0, 8);
  CHECK_EQUAL(both.passive.wait().wr_id, 100u);
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  CHECK_EQUAL(ibv_get_cq_event(both.passive.channel, &queue, &context), -1);
  CHECK_EQUAL(errno, EAGAIN);
  both.passive.arm();
  both.active.send(2, 0, 8);
  both.active.send(3, 0, 8);
  pollfd readable{both.passive.channel->fd, POLLIN, 0};
  CHECK_EQUAL(poll(&readable, 1, -1), 1);
  both.passive.wait_for_event();
  both.passive.wait();
  both.passive.wait();
  CHECK_EQUAL(ibv_get_cq_event(both.passive.channel, &queue, &context), -1);
}

void solicited_only() {
  connection both;
  CHECK_EQUAL(fcntl(both.passive.channel->fd, F_SETFL, O_NONBLOCK), 0);
  CHECK_EQUAL(ibv_req_notify_cq(both.passive.cq, 1), 0);
  both.active.send(1, 0, 8);
  both.passive.wait();
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  CHECK_EQUAL(ibv_get_cq_event(both.passive.channel, &queue, &context), -1);
  both.active.send(2, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  pollfd readable{both.passive.channel->fd, POLLIN, 0};
  CHECK_EQUAL(poll(&readable, 1, -1), 1);
  both.passive.wait_for_event();
}

void too_long_a_message() {
  connection both;
  both.active.send(1, 0, 5000);
  const ibv_wc received = both.passive.wait();
  CHECK_EQUAL(received.status, IBV_WC_LOC_LEN_ERR);
  CHECK_EQUAL(received.wr_id, 100u);
  int64_t iwarp = 0;
  simverbs_get("iwarp", &iwarp);
  CHECK_EQUAL(both.active.wait().status, iwarp ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR);
  CHECK_EQUAL(both.passive.wait().status, IBV_WC_WR_FLUSH_ERR);
}

void wrong_local_key() {
  connection both;
  ibv_sge sge = both.active.piece(0, 16);
  sge.lkey = both.active.mr->rkey;
  ibv_send_wr request{};
  request.wr_id = 9;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  CHECK_EQUAL(ibv_post_send(both.active.id->qp, &request, &bad), 0);
  const ibv_wc failed = both.active.wait();
  CHECK_EQUAL(failed.status, IBV_WC_LOC_PROT_ERR);
  CHECK_EQUAL(failed.wr_id, 9u);
  CHECK_EQUAL(failed.qp_num, both.qp_num_of_active());
}

void inline_limits() {
  connection both;
  CHECK_EQUAL(both.active.try_send(1, 0, 65, IBV_SEND_INLINE), ENOMEM);
  rdma_cm_id* id = resolve_to(both.events, both.listener);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = both.active.cq;
  init.cap = {1, 1, 1, 1, 4096};
  CHECK_EQUAL(rdma_create_qp(id, both.active.pd, &init), -1);
  CHECK_EQUAL(errno, EINVAL);
  CHECK_EQUAL(rdma_destroy_id(id), 0);
}

}  // namespace

const test_case message_cases[] = {
    {"ping-pong-by-events", ping_pong_by_events},
    {"keeps-order-and-counts-unsignalled-sends", keeps_order_and_counts_unsignalled_sends},
    {"refuses-more-sends-than-fit", refuses_more_sends_than_fit},
    {"frees-slots-as-the-device-does", frees_slots_as_the_device_does},
    {"event-only-when-armed-and-once", event_only_when_armed_and_once},
    {"solicited-only", solicited_only},
    {"too-long-a-message", too_long_a_message},
    {"wrong-local-key", wrong_local_key},
    {"inline-limits", inline_limits},
    {nullptr, nullptr},
};
