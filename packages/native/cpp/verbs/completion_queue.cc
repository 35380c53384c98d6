#include "verbs/completion_queue.h"

#include <fcntl.h>

#include <cerrno>
#include <string>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

completion_channel::completion_channel(std::shared_ptr<device_context> context)
    : context_(std::move(context)), channel_(nullptr) {
  errno = 0;
  channel_ = context_->library().create_comp_channel(context_->get());
  if (channel_ == nullptr) throw call_failed("ibv_create_comp_channel", errno != 0 ? errno : EIO);
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      fcntl(channel_->fd, F_SETFD, FD_CLOEXEC) != 0) {
    const int error_number = errno;
    context_->library().destroy_comp_channel(channel_);
    throw call_failed("fcntl", error_number, "completion channel");
  }
}

completion_channel::~completion_channel() { context_->library().destroy_comp_channel(channel_); }

completion_queue::completion_queue(std::shared_ptr<completion_channel> channel, int entries)
    : channel_(std::move(channel)), queue_(nullptr) {
  const device_context& context = channel_->context();
  errno = 0;
  queue_ = context.library().create_cq(context.get(), entries, const_cast<void*>(name_), channel_->get(), 0);
  if (queue_ == nullptr) {
    throw call_failed("ibv_create_cq", errno != 0 ? errno : EIO, std::to_string(entries) + " entries");
  }
}

completion_queue::~completion_queue() {
  acknowledge();
  channel_->context().library().destroy_cq(queue_);
}

int completion_queue::poll(int count, ibv_wc* completions) {
  const int polled = ibv_poll_cq(queue_, count, completions);
  if (polled < 0) throw verbs_error("verbs", "ibv_poll_cq", 0, "ibv_poll_cq failed: the completion queue is lost");
  return polled;
}

void completion_queue::arm() {
  const int error_number = errno_of(ibv_req_notify_cq(queue_, 0));
  if (error_number != 0) throw call_failed("ibv_req_notify_cq", error_number);
}

void completion_queue::note_event() noexcept {
  constexpr unsigned group = 64;
  if (++unacknowledged_ >= group) acknowledge();
}

void completion_queue::acknowledge() noexcept {
  if (unacknowledged_ == 0) return;
  channel_->context().library().ack_cq_events(queue_, unacknowledged_);
  unacknowledged_ = 0;
}

object_name read_completion_event(const completion_channel& channel) {
  ibv_cq* queue = nullptr;
  void* name = nullptr;
  if (channel.context().library().get_cq_event(channel.get(), &queue, &name) != 0) return nullptr;
  return name;
}

}  // namespace verbmq
