#include "fixture.h"

#include <arpa/inet.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>

#undef ibv_reg_mr

void endpoint::make_queue_pair(rdma_cm_id* of) {
  id = of;
  pd = ibv_alloc_pd(id->verbs);
  CHECK(pd != nullptr);
  mr = ibv_reg_mr(pd, buffer.data(), buffer.size(), options.access);
  CHECK(mr != nullptr);
  channel = ibv_create_comp_channel(id->verbs);
  CHECK(channel != nullptr);
  cq = ibv_create_cq(id->verbs, options.cq_entries, this, channel, 0);
  CHECK(cq != nullptr);
  if (options.shared_receives != 0) {
    ibv_srq_init_attr shared_init{};
    shared_init.attr.max_wr = options.shared_receives;
    shared_init.attr.max_sge = 2;
    shared = ibv_create_srq(pd, &shared_init);
    CHECK(shared != nullptr);
  }
  ibv_qp_init_attr init{};
  init.srq = shared;
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = cq;
  init.cap.max_send_wr = init.cap.max_recv_wr = options.depth;
  init.cap.max_send_sge = init.cap.max_recv_sge = 2;
  init.cap.max_inline_data = options.inline_bytes;
  CHECK_EQUAL(rdma_create_qp(id, pd, &init), 0);
}

void endpoint::destroy() {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  CHECK_EQUAL(rdma_destroy_id(id), 0);
  CHECK_EQUAL(ibv_destroy_cq(cq), 0);
  if (shared != nullptr) CHECK_EQUAL(ibv_destroy_srq(shared), 0);
  CHECK_EQUAL(ibv_destroy_comp_channel(channel), 0);
  CHECK_EQUAL(ibv_dereg_mr(mr), 0);
  CHECK_EQUAL(ibv_dealloc_pd(pd), 0);
}

ibv_sge endpoint::piece(size_t offset, uint32_t bytes) const {
  return {reinterpret_cast<uint64_t>(buffer.data() + offset), bytes, mr->lkey};
}

void endpoint::post_receive(uint64_t wr_id, size_t offset, uint32_t bytes) {
  ibv_sge sge = piece(offset, bytes);
  ibv_recv_wr request{};
  request.wr_id = wr_id;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  CHECK_EQUAL(shared != nullptr ? ibv_post_srq_recv(shared, &request, &bad) : ibv_post_recv(id->qp, &request, &bad), 0);
}

int refused_with(const ibv_qp* pair, int result) {
  const bool is_iwarp = pair->context->device->transport_type == IBV_TRANSPORT_IWARP;
  CHECK_EQUAL(result < 0, is_iwarp && result != 0);
  return result == -1 ? errno : std::abs(result);
}

int endpoint::try_send(uint64_t wr_id, size_t offset, uint32_t bytes, unsigned flags) {
  ibv_sge sge = piece(offset, bytes);
  ibv_send_wr request{};
  request.wr_id = wr_id;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = flags;
  ibv_send_wr* bad = nullptr;
  return refused_with(id->qp, ibv_post_send(id->qp, &request, &bad));
}

void endpoint::send(uint64_t wr_id, size_t offset, uint32_t bytes, unsigned flags) {
  CHECK_EQUAL(try_send(wr_id, offset, bytes, flags), 0);
}

ibv_wc endpoint::wait() {
  ibv_wc entry;
  for (;;) {
    const int count = ibv_poll_cq(cq, 1, &entry);
    CHECK(count >= 0);
    if (count == 1) return entry;
    sched_yield();
  }
}

bool endpoint::quiet() {
  ibv_wc entry;
  return ibv_poll_cq(cq, 1, &entry) == 0;
}

void endpoint::wait_for_event() {
  ibv_cq* of = nullptr;
  void* context = nullptr;
  CHECK_EQUAL(ibv_get_cq_event(channel, &of, &context), 0);
  CHECK(of == cq);
  CHECK(context == this);
  ibv_ack_cq_events(of, 1);
}

seen_event next_event(rdma_event_channel* channel) {
  rdma_cm_event* event = nullptr;
  CHECK_EQUAL(rdma_get_cm_event(channel, &event), 0);
  seen_event seen{event->event, event->status, event->id, event->param.conn, {}};
  const auto* bytes = static_cast<const uint8_t*>(event->param.conn.private_data);
  if (bytes != nullptr) seen.private_data.assign(bytes, bytes + event->param.conn.private_data_len);
  CHECK_EQUAL(rdma_ack_cm_event(event), 0);
  return seen;
}

seen_event expect_event(rdma_event_channel* channel, rdma_cm_event_type type) {
  const seen_event seen = next_event(channel);
  if (seen.type != type) std::fprintf(stderr, "got %s\n", rdma_event_str(seen.type));
  CHECK_EQUAL(seen.type, type);
  return seen;
}

rdma_cm_id* listen_on_loopback(rdma_event_channel* events, uint16_t port) {
  rdma_cm_id* listener = nullptr;
  CHECK_EQUAL(rdma_create_id(events, &listener, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  CHECK_EQUAL(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)), 0);
  CHECK_EQUAL(rdma_listen(listener, 8), 0);
  return listener;
}

rdma_cm_id* resolve_to(rdma_event_channel* events, rdma_cm_id* listener) {
  rdma_cm_id* id = nullptr;
  CHECK_EQUAL(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), 0);
  CHECK_EQUAL(rdma_resolve_addr(id, nullptr, &listener->route.addr.src_addr, 1000), 0);
  CHECK(id->verbs == nullptr);
  expect_event(events, RDMA_CM_EVENT_ADDR_RESOLVED);
  CHECK(id->verbs != nullptr);
  CHECK_EQUAL(rdma_resolve_route(id, 1000), 0);
  expect_event(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

rdma_conn_param connection_parameters(const endpoint_options& options) {
  rdma_conn_param parameters{};
  parameters.responder_resources = options.reads;
  parameters.initiator_depth = options.reads;
  parameters.retry_count = options.retries;
  parameters.rnr_retry_count = options.rnr_retry;
  return parameters;
}

connection::connection(endpoint_options active_options, endpoint_options passive_options)
    : events(rdma_create_event_channel()), listener(nullptr), active(active_options), passive(passive_options) {
  CHECK(events != nullptr);
  listener = listen_on_loopback(events);
  active.make_queue_pair(resolve_to(events, listener));
  active.post_receive(50, 0, 4096);
  rdma_conn_param parameters = connection_parameters(active.options);
  CHECK_EQUAL(rdma_connect(active.id, &parameters), 0);
  const seen_event request = expect_event(events, RDMA_CM_EVENT_CONNECT_REQUEST);
  passive.make_queue_pair(request.id);
  for (uint64_t i = 0; i < 8; ++i) passive.post_receive(100 + i, i * 4096, 4096);
  parameters = connection_parameters(passive.options);
  CHECK_EQUAL(rdma_accept(passive.id, &parameters), 0);
  // Which end hears first is the transport's business.
  const seen_event first = expect_event(events, RDMA_CM_EVENT_ESTABLISHED);
  const seen_event second = expect_event(events, RDMA_CM_EVENT_ESTABLISHED);
  CHECK(first.id != second.id);
}

void connection::disconnect() {
  CHECK_EQUAL(rdma_disconnect(active.id), 0);
  expect_event(events, RDMA_CM_EVENT_DISCONNECTED);
}

connection::~connection() {
  active.destroy();
  passive.destroy();
  CHECK_EQUAL(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(events);
}

void check_nothing_lives() {
  for (const char* kind : {"context", "pd", "mr", "mw", "cq", "qp", "srq", "comp-channel", "cm-channel", "cm-id",
                           "pinned-bytes"}) {
    if (simverbs_live(kind) != 0) std::fprintf(stderr, "left over: %s\n", kind);
    CHECK_EQUAL(simverbs_live(kind), 0);
  }
  CHECK_EQUAL(simverbs_count("busy"), 0);
}
