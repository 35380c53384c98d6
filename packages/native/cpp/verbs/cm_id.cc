#include "verbs/cm_id.h"

#include <fcntl.h>

#include <arpa/inet.h>

#include <cerrno>
#include <utility>

#include "verbs/object_name.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// librdmacm reports through errno and returns -1; some paths return the errno itself.
void check(int result, const char* call, const std::string& what = {}) {
  if (result == 0) return;
  throw call_failed(call, result > 0 ? result : (errno != 0 ? errno : EIO), what);
}

}  // namespace

event_channel::event_channel(std::shared_ptr<const verbs_library> library)
    : library_(std::move(library)), channel_(nullptr) {
  check_device_file("/dev/infiniband/rdma_cm");
  errno = 0;
  channel_ = library_->create_event_channel();
  if (channel_ == nullptr) {
    const int error_number = errno != 0 ? errno : EIO;
    if (error_number == ENOENT) {
      throw verbs_error("module-missing", "rdma_create_event_channel", error_number,
                        "there is no /dev/infiniband/rdma_cm (module rdma_ucm)");
    }
    throw call_failed("rdma_create_event_channel", error_number, "/dev/infiniband/rdma_cm");
  }
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      fcntl(channel_->fd, F_SETFD, FD_CLOEXEC) != 0) {
    const int error_number = errno;
    library_->destroy_event_channel(channel_);
    throw call_failed("fcntl", error_number, "event channel");
  }
}

event_channel::~event_channel() { library_->destroy_event_channel(channel_); }

std::optional<cm_event> event_channel::next() {
  rdma_cm_event* event = nullptr;
  errno = 0;
  if (library_->get_cm_event(channel_, &event) != 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
    throw call_failed("rdma_get_cm_event", errno != 0 ? errno : EIO);
  }
  cm_event copy{event->event, event->status, event->id, event->listen_id, event->param.conn.responder_resources,
                event->param.conn.initiator_depth, {}};
  const auto* bytes = static_cast<const uint8_t*>(event->param.conn.private_data);
  if (bytes != nullptr) copy.private_data.assign(bytes, bytes + event->param.conn.private_data_len);
  library_->ack_cm_event(event);
  return copy;
}

cm_id::cm_id(std::shared_ptr<event_channel> channel, void* context) : channel_(std::move(channel)) {
  check(library().create_id(channel_->get(), &id_, context, RDMA_PS_TCP), "rdma_create_id");
}

cm_id::cm_id(std::shared_ptr<event_channel> channel, rdma_cm_id* requested, void* context)
    : channel_(std::move(channel)), id_(requested) {
  id_->context = context;
}

cm_id::~cm_id() {
  destroy_queue_pair();
  library().destroy_id(id_);
}

void cm_id::bind(const sockaddr* address) {
  check(library().bind_addr(id_, const_cast<sockaddr*>(address)), "rdma_bind_addr");
}

void cm_id::listen(int backlog) { check(library().listen(id_, backlog), "rdma_listen"); }

void cm_id::resolve_address(const sockaddr* destination, int timeout_ms) {
  check(library().resolve_addr(id_, nullptr, const_cast<sockaddr*>(destination), timeout_ms), "rdma_resolve_addr");
}

void cm_id::resolve_route(int timeout_ms) { check(library().resolve_route(id_, timeout_ms), "rdma_resolve_route"); }

queue_pair_limits cm_id::create_queue_pair(std::shared_ptr<protection_domain> domain,
                                           std::shared_ptr<completion_queue> queue, queue_pair_limits limits,
                                           receive_side shared) {
  domain_ = std::move(domain);
  queue_ = std::move(queue);
  shared_ = std::move(shared);
  for (;;) {
    ibv_qp_init_attr attributes{};
    attributes.qp_context = const_cast<void*>(unused_name_any_thread());
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = queue_->get();
    attributes.recv_cq = shared_.queue != nullptr ? shared_.completions->get() : queue_->get();
    attributes.srq = shared_.queue;
    attributes.cap.max_send_wr = limits.send_depth;
    attributes.cap.max_recv_wr = limits.receive_depth;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = limits.inline_bytes;
    errno = 0;
    if (library().create_qp(id_, domain_->get(), &attributes) == 0) {
      // A device may grant more than was asked; what was asked is what the caller sized its use for.
      return limits;
    }
    if (limits.inline_bytes == 0) throw call_failed("rdma_create_qp", errno != 0 ? errno : EIO);
    limits.inline_bytes = limits.inline_bytes > 32 ? limits.inline_bytes / 2 : 0;
  }
}

void cm_id::destroy_queue_pair() noexcept {
  if (id_ != nullptr && id_->qp != nullptr) library().destroy_qp(id_);
  queue_.reset();
  shared_ = {};
  domain_.reset();
}

detached_queue_pair cm_id::detach_queue_pair() noexcept {
  return detached_queue_pair(channel_->library(), std::exchange(id_->qp, nullptr));
}

void detached_queue_pair::destroy_any_thread() noexcept {
  if (ibv_qp* destroyed = std::exchange(queue_pair_, nullptr)) library_->destroy_plain_qp(destroyed);
}

bool cm_id::has_failed() const noexcept {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  if (library().query_qp(id_->qp, &attributes, IBV_QP_STATE, &initial) != 0) return false;
  return attributes.qp_state != IBV_QPS_RTS;
}

bool cm_id::stands_on(object_name subject) const noexcept {
  if (subject == nullptr || id_->qp == nullptr) return false;
  return subject == id_->qp->qp_context || (queue_ && subject == queue_->name()) ||
         (shared_.completions && subject == shared_.completions->name());
}

void cm_id::connect(const rdma_conn_param& parameters) {
  check(library().connect(id_, const_cast<rdma_conn_param*>(&parameters)), "rdma_connect");
}

void cm_id::accept(const rdma_conn_param& parameters) {
  check(library().accept(id_, const_cast<rdma_conn_param*>(&parameters)), "rdma_accept");
}

void cm_id::reject(const void* private_data, uint8_t bytes) noexcept { library().reject(id_, private_data, bytes); }

void cm_id::disconnect() noexcept {
  if (!std::exchange(disconnected_, true)) library().disconnect(id_);
}

void cm_id::set_min_rnr_timer(uint8_t code) noexcept {
  // Only a safety net: credits keep receivers ready, and a device that refuses this change works all the same.
  ibv_qp_attr attributes{};
  attributes.min_rnr_timer = code;
  if (id_->qp != nullptr) library().modify_qp(id_->qp, &attributes, IBV_QP_MIN_RNR_TIMER);
}

uint16_t cm_id::local_port() const { return ntohs(library().get_src_port(id_)); }

}  // namespace verbmq
