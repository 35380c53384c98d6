#include "verbs/shared_receive_queue.h"

#include <cerrno>
#include <string>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

shared_receive_queue::shared_receive_queue(std::shared_ptr<protection_domain> domain, uint32_t depth)
    : domain_(std::move(domain)), queue_(nullptr) {
  ibv_srq_init_attr attributes{};
  attributes.srq_context = const_cast<void*>(name_);
  attributes.attr.max_wr = depth;
  attributes.attr.max_sge = 1;
  errno = 0;
  queue_ = domain_->library().create_srq(domain_->get(), &attributes);
  if (queue_ == nullptr) {
    throw call_failed("ibv_create_srq", errno != 0 ? errno : EIO, std::to_string(depth) + " receives");
  }
}

shared_receive_queue::~shared_receive_queue() { domain_->library().destroy_srq(queue_); }

int shared_receive_queue::post(ibv_recv_wr* first, ibv_recv_wr*& refused) noexcept {
  return errno_of(ibv_post_srq_recv(queue_, first, &refused));
}

void shared_receive_queue::warn_below(uint32_t receives) noexcept {
  ibv_srq_attr attributes{};
  attributes.srq_limit = receives;
  domain_->library().modify_srq(queue_, &attributes, IBV_SRQ_LIMIT);
}

}  // namespace verbmq
