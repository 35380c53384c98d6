#include "verbs/device_events.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

#include "verbs/shared_by_context.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// The contexts are those that were given when the queues were created. They are not looked into, because other code of
// this process may have queues on the device as well.
device_event copy_of(const ibv_async_event& event) {
  device_event copy{event.event_type, 0, nullptr};
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      copy.subject = event.element.qp->qp_context;
      break;
    case IBV_EVENT_CQ_ERR:
      copy.subject = event.element.cq->cq_context;
      break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      copy.subject = event.element.srq->srq_context;
      break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      copy.port = event.element.port_num;
      break;
    default:
      break;
  }
  return copy;
}

void watch(int poll_fd, int fd) {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &wanted) != 0) throw call_failed("epoll_ctl", errno, "device events");
}

}  // namespace

std::string device_event_name(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR: return "completion-queue-error";
    case IBV_EVENT_QP_FATAL: return "queue-pair-fatal";
    case IBV_EVENT_QP_REQ_ERR: return "queue-pair-request-error";
    case IBV_EVENT_QP_ACCESS_ERR: return "queue-pair-access-error";
    case IBV_EVENT_COMM_EST: return "communication-established";
    case IBV_EVENT_SQ_DRAINED: return "send-queue-drained";
    case IBV_EVENT_PATH_MIG: return "path-migrated";
    case IBV_EVENT_PATH_MIG_ERR: return "path-migration-error";
    case IBV_EVENT_DEVICE_FATAL: return "device-fatal";
    case IBV_EVENT_PORT_ACTIVE: return "port-active";
    case IBV_EVENT_PORT_ERR: return "port-error";
    case IBV_EVENT_LID_CHANGE: return "lid-change";
    case IBV_EVENT_PKEY_CHANGE: return "pkey-change";
    case IBV_EVENT_SM_CHANGE: return "subnet-manager-change";
    case IBV_EVENT_SRQ_ERR: return "shared-receive-queue-error";
    case IBV_EVENT_SRQ_LIMIT_REACHED: return "shared-receive-queue-limit";
    case IBV_EVENT_QP_LAST_WQE_REACHED: return "last-receive-reached";
    case IBV_EVENT_CLIENT_REREGISTER: return "client-reregister";
    case IBV_EVENT_GID_CHANGE: return "gid-change";
    default: return "event-" + std::to_string(type);
  }
}

/// The descriptor of one device, and everybody in this process who wants to know what it says.
class device_events::source {
 public:
  explicit source(std::shared_ptr<device_context> context) : context_(std::move(context)) {
    const int flags = fcntl(fd(), F_GETFL);
    if (flags < 0 || fcntl(fd(), F_SETFL, flags | O_NONBLOCK) != 0) {
      throw call_failed("fcntl", errno, "device events");
    }
  }

  int fd() const noexcept { return context_->get()->async_fd; }

  void add(device_events* user) {
    const std::lock_guard<std::mutex> locked(mutex_);
    if (!failed_) watch(user->poll_fd_, fd());
    users_.push_back(user);
    if (failed_) pass_on({IBV_EVENT_DEVICE_FATAL, 0, nullptr}, *user);
  }

  void remove(device_events* user) {
    const std::lock_guard<std::mutex> locked(mutex_);
    users_.erase(std::remove(users_.begin(), users_.end(), user), users_.end());
  }

  std::vector<device_event> take_for(device_events& user) {
    const std::lock_guard<std::mutex> locked(mutex_);
    read();
    uint64_t passed_on;
    while (::read(user.wake_fd_, &passed_on, sizeof passed_on) < 0 && errno == EINTR) {
    }
    return std::exchange(user.waiting_, {});
  }

 private:
  void read() {
    ibv_async_event event{};
    for (;;) {
      errno = 0;
      if (context_->library().get_async_event(context_->get(), &event) == 0) {
        const device_event copy = copy_of(event);
        context_->library().ack_async_event(&event);
        for (device_events* user : users_) pass_on(copy, *user);
        continue;
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) fail();
      return;
    }
  }

  // The kernel answers like this when the device is gone. Its descriptor then stays readable for ever.
  void fail() {
    if (failed_) return;
    failed_ = true;
    for (const device_events* user : users_) epoll_ctl(user->poll_fd_, EPOLL_CTL_DEL, fd(), nullptr);
    for (device_events* user : users_) pass_on({IBV_EVENT_DEVICE_FATAL, 0, nullptr}, *user);
  }

  // Nobody is told twice of what still waits; so what waits for a thread that is busy is bounded.
  static void pass_on(const device_event& event, device_events& user) {
    if (std::find(user.waiting_.begin(), user.waiting_.end(), event) != user.waiting_.end()) return;
    user.waiting_.push_back(event);
    constexpr uint64_t one = 1;
    while (::write(user.wake_fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  std::mutex mutex_;
  std::shared_ptr<device_context> context_;
  std::vector<device_events*> users_;
  bool failed_ = false;
};

device_events::device_events(const std::shared_ptr<device_context>& context)
    : source_(shared_by_context<source>(context)) {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  poll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  try {
    if (wake_fd_ < 0 || poll_fd_ < 0) throw call_failed("eventfd", errno, "device events");
    watch(poll_fd_, wake_fd_);
    source_->add(this);
  } catch (...) {
    close(wake_fd_);
    close(poll_fd_);
    throw;
  }
}

device_events::~device_events() {
  source_->remove(this);
  close(poll_fd_);
  close(wake_fd_);
}

std::vector<device_event> device_events::take() { return source_->take_for(*this); }

}  // namespace verbmq
