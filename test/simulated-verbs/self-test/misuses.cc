// Each trap of the library: a child process commits the misuse and ends in it, with its message.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "fixture.h"

namespace {

struct misuse {
  const char* name;
  const char* message;
  void (*commit)();
};

/// An id that is bound to a device, and to nobody else.
rdma_cm_id* bound_id(rdma_event_channel* events) {
  rdma_cm_id* id = nullptr;
  CHECK_EQUAL(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQUAL(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&loopback)), 0);
  return id;
}

/// An id whose event has been read and is not acknowledged.
rdma_cm_id* id_with_an_event(rdma_event_channel* events) {
  rdma_cm_id* id = bound_id(events);
  CHECK_EQUAL(simverbs_replace_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, -1), 0);
  CHECK_EQUAL(rdma_resolve_addr(id, nullptr, &id->route.addr.src_addr, 1000), 0);
  rdma_cm_event* event = nullptr;
  CHECK_EQUAL(rdma_get_cm_event(events, &event), 0);
  CHECK(event->id == id);
  return id;
}

void read_async_event(ibv_context* context, ibv_event_type type) {
  ibv_async_event event;
  CHECK_EQUAL(ibv_get_async_event(context, &event), 0);
  CHECK_EQUAL(event.event_type, type);
}

void destroy_id() { rdma_destroy_id(id_with_an_event(rdma_create_event_channel())); }

void migrate_id() {
  rdma_cm_id* id = id_with_an_event(rdma_create_event_channel());
  rdma_migrate_id(id, rdma_create_event_channel());
}

void destroy_channel() {
  rdma_event_channel* events = rdma_create_event_channel();
  bound_id(events);
  rdma_destroy_event_channel(events);
}

void destroy_queue_pair() {
  connection both;
  CHECK_EQUAL(simverbs_queue_pair_error(both.qp_num_of_active()), 0);
  read_async_event(both.active.id->verbs, IBV_EVENT_QP_FATAL);
  rdma_destroy_qp(both.active.id);
}

void destroy_queue_after_completion_event() {
  connection both;
  both.passive.arm();
  both.active.send(1, 0, 8);
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  CHECK_EQUAL(ibv_get_cq_event(both.passive.channel, &queue, &context), 0);
  rdma_destroy_qp(both.passive.id);
  ibv_destroy_cq(queue);
}

void destroy_queue_after_async_event() {
  rdma_cm_id* id = bound_id(rdma_create_event_channel());
  ibv_cq* queue = ibv_create_cq(id->verbs, 4, nullptr, nullptr, 0);
  CHECK_EQUAL(simverbs_raise_async_event(IBV_EVENT_CQ_ERR), 0);
  read_async_event(id->verbs, IBV_EVENT_CQ_ERR);
  ibv_destroy_cq(queue);
}

void destroy_shared_receive_queue() {
  endpoint_options sharing;
  sharing.shared_receives = 8;
  connection both({}, sharing);
  ibv_srq_attr attributes{};
  attributes.srq_limit = 8;
  CHECK_EQUAL(ibv_modify_srq(both.passive.shared, &attributes, IBV_SRQ_LIMIT), 0);
  both.active.send(1, 0, 8);
  read_async_event(both.passive.id->verbs, IBV_EVENT_SRQ_LIMIT_REACHED);
  rdma_destroy_qp(both.passive.id);
  ibv_destroy_srq(both.passive.shared);
}

void leave_objects_on_a_removed_device() {
  rdma_cm_id* id = bound_id(rdma_create_event_channel());
  CHECK(ibv_alloc_pd(id->verbs) != nullptr);
  simverbs_remove_device();
  rdma_destroy_id(id);
}

void connect_without_receives(uint32_t shared) {
  rdma_event_channel* events = rdma_create_event_channel();
  endpoint_options options;
  options.shared_receives = shared;
  endpoint active(options);
  active.make_queue_pair(resolve_to(events, listen_on_loopback(events)));
  rdma_conn_param parameters = connection_parameters(options);
  rdma_connect(active.id, &parameters);
}

void accept_without_receives(uint32_t shared) {
  rdma_event_channel* events = rdma_create_event_channel();
  endpoint_options options;
  endpoint active(options);
  active.make_queue_pair(resolve_to(events, listen_on_loopback(events)));
  active.post_receive(1, 0, 8);
  rdma_conn_param parameters = connection_parameters(options);
  CHECK_EQUAL(rdma_connect(active.id, &parameters), 0);
  options.shared_receives = shared;
  endpoint passive(options);
  passive.make_queue_pair(expect_event(events, RDMA_CM_EVENT_CONNECT_REQUEST).id);
  rdma_accept(passive.id, &parameters);
}

constexpr misuse misuses[] = {
    {"destroy-id", "rdma_destroy_id of an id with events that were read and not acknowledged", destroy_id},
    {"migrate-id", "rdma_migrate_id of an id with events that were read and not acknowledged", migrate_id},
    {"destroy-channel", "rdma_destroy_event_channel while ids of it live", destroy_channel},
    {"destroy-queue-pair", "a queue pair destroyed with an asynchronous event that was read and not acknowledged",
     destroy_queue_pair},
    {"destroy-queue-after-completion-event", "ibv_destroy_cq with completion events that were read and not acknowledged",
     destroy_queue_after_completion_event},
    {"destroy-queue-after-async-event", "ibv_destroy_cq with an asynchronous event that was read and not acknowledged",
     destroy_queue_after_async_event},
    {"destroy-shared-receive-queue", "ibv_destroy_srq with an asynchronous event that was read and not acknowledged",
     destroy_shared_receive_queue},
    {"leave-objects-on-a-removed-device", "verbs objects are left on a device that librdmacm closes",
     leave_objects_on_a_removed_device},
    {"connect", "rdma_connect before a receive is posted", [] { connect_without_receives(0); }},
    {"connect-with-shared-receives", "rdma_connect before a receive is posted", [] { connect_without_receives(8); }},
    {"accept", "rdma_accept before a receive is posted", [] { accept_without_receives(0); }},
    {"accept-with-shared-receives", "rdma_accept before a receive is posted", [] { accept_without_receives(8); }},
};

std::string personality_now() {
  int64_t iwarp = 0;
  int64_t at_poll = 0;
  CHECK_EQUAL(simverbs_get("iwarp", &iwarp), 0);
  CHECK_EQUAL(simverbs_get("slots_freed_at_poll", &at_poll), 0);
  return iwarp != 0 ? "siw" : at_poll != 0 ? "mlx" : "rxe";
}

/// Runs a child that commits it, kills it once it has said something if it is to hang, and tells the signal it ended by.
int signal_of(const misuse& what, bool hang, std::string& said) {
  const std::string personality = personality_now();
  int ends[2];
  CHECK_EQUAL(pipe(ends), 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl("/proc/self/exe", "self-test", "--misuse", what.name, personality.c_str(), hang ? "hang" : "abort", nullptr);
    _exit(127);
  }
  close(ends[1]);
  char byte;
  while (read(ends[0], &byte, 1) == 1 && byte != '\n') said += byte;
  if (hang) kill(child, SIGKILL);
  int status = 0;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  close(ends[0]);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void traps_each_misuse() {
  for (const misuse& each : misuses) {
    std::string said;
    const int signal = signal_of(each, false, said);
    const std::string expected = std::string("simulated verbs: ") + each.message + "; ";
    if (signal != SIGABRT || said.rfind(expected, 0) != 0) std::fprintf(stderr, "%s: %s\n", each.name, said.c_str());
    CHECK_EQUAL(signal, SIGABRT);
    CHECK(said.rfind(expected, 0) == 0);
    std::printf("trapped: %s\n", each.message);
  }
}

void hangs_when_asked() {
  std::string said;
  CHECK_EQUAL(signal_of(misuses[0], true, said), SIGKILL);
  CHECK(said.find("wait for ever, and so does this") != std::string::npos);
}

}  // namespace

int commit_misuse(const char* name, const char* personality, bool hang) {
  const rlimit no_core{0, 0};
  CHECK_EQUAL(setrlimit(RLIMIT_CORE, &no_core), 0);
  CHECK_EQUAL(simverbs_reset(personality), 0);
  CHECK_EQUAL(simverbs_set("hang_on_misuse", hang), 0);
  for (const misuse& each : misuses) {
    if (std::strcmp(each.name, name) != 0) continue;
    each.commit();
    std::fprintf(stderr, "%s was let pass\n", name);
    _exit(1);
  }
  std::fprintf(stderr, "there is no misuse %s\n", name);
  return 1;
}

const test_case misuse_cases[] = {
    {"traps-each-misuse", traps_each_misuse},
    {"hangs-when-asked", hangs_when_asked},
    {nullptr, nullptr},
};
