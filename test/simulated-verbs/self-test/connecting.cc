// Connection management: order of events, private data, ports, refusals, ends.
#include <arpa/inet.h>
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

void lists_a_device() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  CHECK_EQUAL(count, 1);
  ibv_context* context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  CHECK(context != nullptr);
  ibv_device_attr attributes;
  CHECK_EQUAL(ibv_query_device(context, &attributes), 0);
  CHECK_EQUAL(attributes.phys_port_cnt, 1);
  CHECK_EQUAL(attributes.atomic_cap, on_iwarp() ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA);
  ibv_port_attr port;
  CHECK_EQUAL(ibv_query_port(context, 1, &port), 0);
  CHECK_EQUAL(port.state, IBV_PORT_ACTIVE);
  CHECK_EQUAL(ibv_query_port(context, 2, &port), EINVAL);
  CHECK_EQUAL(ibv_close_device(context), 0);
}

void connects_and_disconnects() {
  connection both;
  CHECK_EQUAL(simverbs_live("qp"), 2);
  CHECK_EQUAL(simverbs_live("cm-id"), 3);
  both.disconnect();
  if (on_iwarp()) {
    expect_event(both.events, RDMA_CM_EVENT_DISCONNECTED);
  } else {
    // The active end hears of the end when the passive one answers.
    CHECK_EQUAL(rdma_disconnect(both.passive.id), 0);
    bool active_heard = false;
    while (!active_heard) {
      const seen_event event = next_event(both.events);
      active_heard = event.type == RDMA_CM_EVENT_DISCONNECTED && event.id == both.active.id;
    }
  }
}

void carries_private_data() {
  rdma_event_channel* events = rdma_create_event_channel();
  rdma_cm_id* listener = listen_on_loopback(events);
  rdma_cm_id* id = resolve_to(events, listener);
  const char hello[] = "hello";
  rdma_conn_param parameters = connection_parameters({});
  parameters.private_data = hello;
  parameters.private_data_len = 57;
  if (!on_iwarp()) {
    std::vector<uint8_t> too_much(57);
    parameters.private_data = too_much.data();
    CHECK_EQUAL(rdma_connect(id, &parameters), -1);
    CHECK_EQUAL(errno, EINVAL);
  }
  parameters.private_data = hello;
  parameters.private_data_len = sizeof hello;
  parameters.responder_resources = 3;
  parameters.initiator_depth = 2;
  CHECK_EQUAL(rdma_connect(id, &parameters), 0);
  const seen_event request = expect_event(events, RDMA_CM_EVENT_CONNECT_REQUEST);
  CHECK_EQUAL(request.private_data.size(), on_iwarp() ? sizeof hello : size_t{56});
  CHECK_EQUAL(std::memcmp(request.private_data.data(), hello, sizeof hello), 0);
  // What one side asks for is what the other gives.
  CHECK_EQUAL(request.parameters.responder_resources, 2);
  CHECK_EQUAL(request.parameters.initiator_depth, 3);
  CHECK_EQUAL(rdma_reject(request.id, "no", 2), 0);
  const seen_event rejected = expect_event(events, RDMA_CM_EVENT_REJECTED);
  CHECK_EQUAL(rejected.status, on_iwarp() ? -ECONNREFUSED : 28);
  CHECK_EQUAL(std::memcmp(rejected.private_data.data(), "no", 2), 0);
  CHECK_EQUAL(rdma_destroy_id(request.id), 0);
  CHECK_EQUAL(rdma_destroy_id(id), 0);
  CHECK_EQUAL(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(events);
}

void ends_ids_that_were_not_destroyed_with_their_channel() {
  rdma_event_channel* listening = rdma_create_event_channel();
  rdma_event_channel* events = rdma_create_event_channel();
  rdma_cm_id* listener = listen_on_loopback(listening);
  rdma_cm_id* id = resolve_to(events, listener);
  CHECK_EQUAL(simverbs_fail_call("rdma_destroy_id", 0, 1, EIO), 0);
  CHECK_EQUAL(rdma_destroy_id(listener), -1);
  CHECK_EQUAL(errno, EIO);
  rdma_conn_param parameters = connection_parameters({});
  CHECK_EQUAL(rdma_connect(id, &parameters), 0);
  CHECK_EQUAL(rdma_destroy_id(expect_event(listening, RDMA_CM_EVENT_CONNECT_REQUEST).id), 0);
  expect_event(events, RDMA_CM_EVENT_REJECTED);
  CHECK_EQUAL(simverbs_live("cm-id"), 2);
  rdma_destroy_event_channel(listening);
  CHECK_EQUAL(simverbs_live("cm-id"), 1);
  CHECK_EQUAL(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(events);
}

void refuses_without_a_listener() {
  rdma_event_channel* events = rdma_create_event_channel();
  rdma_cm_id* listener = listen_on_loopback(events);
  rdma_cm_id* id = resolve_to(events, listener);
  CHECK_EQUAL(rdma_destroy_id(listener), 0);
  rdma_conn_param parameters = connection_parameters({});
  if (on_iwarp()) {
    CHECK_EQUAL(rdma_connect(id, &parameters), -1);
    CHECK_EQUAL(errno, ECONNREFUSED);
  } else {
    CHECK_EQUAL(rdma_connect(id, &parameters), 0);
    CHECK_EQUAL(expect_event(events, RDMA_CM_EVENT_REJECTED).status, 8);
  }
  CHECK_EQUAL(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(events);
}

void rejects_unread_requests_when_the_listener_goes() {
  rdma_event_channel* listening = rdma_create_event_channel();
  rdma_event_channel* events = rdma_create_event_channel();
  rdma_cm_id* listener = listen_on_loopback(listening);
  rdma_cm_id* id = resolve_to(events, listener);
  rdma_conn_param parameters = connection_parameters({});
  CHECK_EQUAL(rdma_connect(id, &parameters), 0);
  pollfd readable{listening->fd, POLLIN, 0};
  CHECK_EQUAL(poll(&readable, 1, -1), 1);
  CHECK_EQUAL(rdma_destroy_id(listener), 0);
  expect_event(events, RDMA_CM_EVENT_REJECTED);
  CHECK_EQUAL(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(listening);
  rdma_destroy_event_channel(events);
}

void gives_each_port_once() {
  rdma_event_channel* events = rdma_create_event_channel();
  rdma_cm_id* first = listen_on_loopback(events);
  rdma_cm_id* second = nullptr;
  CHECK_EQUAL(rdma_create_id(events, &second, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = rdma_get_src_port(first);
  CHECK(any.sin6_port != 0);
  CHECK_EQUAL(rdma_bind_addr(second, reinterpret_cast<sockaddr*>(&any)), -1);
  CHECK_EQUAL(errno, EADDRINUSE);
  any.sin6_port = 0;
  CHECK_EQUAL(rdma_bind_addr(second, reinterpret_cast<sockaddr*>(&any)), 0);
  CHECK(rdma_get_src_port(second) != rdma_get_src_port(first));
  CHECK_EQUAL(rdma_destroy_id(second), 0);
  CHECK_EQUAL(rdma_destroy_id(first), 0);
  rdma_destroy_event_channel(events);
}

void finds_a_wildcard_listener() {
  rdma_event_channel* events = rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  CHECK_EQUAL(rdma_create_id(events, &listener, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  CHECK_EQUAL(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any)), 0);
  CHECK_EQUAL(rdma_listen(listener, 1), 0);
  CHECK(listener->verbs == nullptr);
  rdma_cm_id* id = nullptr;
  CHECK_EQUAL(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  loopback.sin_port = rdma_get_src_port(listener);
  CHECK_EQUAL(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&loopback), 1000), 0);
  expect_event(events, RDMA_CM_EVENT_ADDR_RESOLVED);
  CHECK_EQUAL(rdma_resolve_route(id, 1000), 0);
  expect_event(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param parameters = connection_parameters({});
  CHECK_EQUAL(rdma_connect(id, &parameters), 0);
  // Of IPv4, which the socket below a listener of iWARP takes, and its connection manager then refuses.
  if (!on_iwarp()) {
    const seen_event request = expect_event(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    CHECK(request.id->verbs == id->verbs);
    // An id that ends without an answer is an answer.
    CHECK_EQUAL(rdma_destroy_id(request.id), 0);
  }
  expect_event(events, RDMA_CM_EVENT_REJECTED);
  CHECK_EQUAL(rdma_destroy_id(id), 0);
  CHECK_EQUAL(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(events);
}

void reads_without_waiting_when_asked() {
  rdma_event_channel* events = rdma_create_event_channel();
  CHECK_EQUAL(fcntl(events->fd, F_SETFL, fcntl(events->fd, F_GETFL) | O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  CHECK_EQUAL(rdma_get_cm_event(events, &event), -1);
  CHECK_EQUAL(errno, EAGAIN);
  rdma_destroy_event_channel(events);
}

void tells_when_the_peer_ends_its_id() {
  connection both;
  endpoint& gone = both.passive;
  const endpoint_options options = gone.options;
  gone.destroy();
  const seen_event event = expect_event(both.events, RDMA_CM_EVENT_DISCONNECTED);
  CHECK(event.id == both.active.id);
  // The fixture ends a second endpoint; give it one that was never connected.
  gone.options = options;
  gone.make_queue_pair(resolve_to(both.events, both.listener));
}

}  // namespace

const test_case connecting_cases[] = {
    {"lists-a-device", lists_a_device},
    {"connects-and-disconnects", connects_and_disconnects},
    {"carries-private-data", carries_private_data},
    {"ends-ids-that-were-not-destroyed-with-their-channel", ends_ids_that_were_not_destroyed_with_their_channel},
    {"refuses-without-a-listener", refuses_without_a_listener},
    {"rejects-unread-requests-when-the-listener-goes", rejects_unread_requests_when_the_listener_goes},
    {"gives-each-port-once", gives_each_port_once},
    {"finds-a-wildcard-listener", finds_a_wildcard_listener},
    {"reads-without-waiting-when-asked", reads_without_waiting_when_asked},
    {"tells-when-the-peer-ends-its-id", tells_when_the_peer_ends_its_id},
    {nullptr, nullptr},
};
