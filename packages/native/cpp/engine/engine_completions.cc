// The engine's data path: completions in, events out.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

failure failure_of(const connection& of, const work_id& work, const ibv_wc& completion) {
  // Of a failed completion only the work id, the status and the vendor's code are valid.
  std::string message;
  std::string reason = "lost";
  const bool is_receive = work.kind == work_kind::receive || work.kind == work_kind::shared_receive;
  switch (completion.status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_REM_INV_REQ_ERR:  // so Soft-RoCE reports it on this side as well
      reason = is_receive ? "protocol" : "device";
      message = is_receive ? "the peer broke the protocol: a frame that is longer than a slot" : "the queue pair failed";
      break;
    case IBV_WC_WR_FLUSH_ERR:
      message = "the connection was lost: the peer's process ended, or its network did";
      break;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      message = "the connection was lost: the peer's device does not answer";
      break;
    case IBV_WC_REM_ACCESS_ERR:
      // The memory of a process that is being ended goes before its queue pair.
      if (work.kind == work_kind::operation && of.is_fetch(work.number)) {
        message = "the connection was lost: the peer took back a message before it was read, as when its process ends";
        break;
      }
      reason = "remote-access";
      message = "the peer's device refused an access to its memory";
      break;
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_GENERAL_ERR:
      // So iWARP devices report a send whose TCP connection broke under it.
      if (of.device()->context().is_iwarp()) {
        message = "the connection was lost: the peer's process ended, or its network did";
        break;
      }
      [[fallthrough]];
    default:
      reason = "device";
      message = "the queue pair failed";
  }
  message += " (" + completion_status_name(completion.status) + ", vendor code " +
             std::to_string(completion.vendor_err) + ")";
  return {std::move(reason), std::move(message)};
}

}  // namespace

size_t engine::poll() {
  const size_t total = poll_devices();
  // Whoever polls in vain has nothing to flush; a queue that has failed ends its connections all the same.
  if (take_drained() || (total == 0 && !doomed_.empty())) reap();
  return total;
}

size_t engine::poll_devices() {
  size_t total = 0;
  for (const auto& [context, device] : devices_) {
    const size_t count = device->poll(completions_.data(), batch);
    for (size_t i = 0; i < count; ++i) handle_completion(completions_[i]);
    total = std::max(total, count);
    fail_queues(*device);
  }
  return total;
}

void engine::arm() {
  for (const auto& [context, device] : devices_) {
    device->arm();
    fail_queues(*device);
  }
}

void engine::consume_completion_events() {
  for (const auto& [context, device] : devices_) device->consume_events();
}

void engine::handle_completion(const ibv_wc& completion) {
  const work_id work = work_id::decode(completion.wr_id);
  if (work.kind == work_kind::shared_receive) return handle_shared_receive(work, completion);
  connection* of = find(work.connection);
  // A queue pair that was destroyed may have left completions behind.
  if (of == nullptr) return;
  if (completion.status != IBV_WC_SUCCESS) return handle_failed_completion(*of, work, completion);
  if (work.kind == work_kind::receive) {
    handle_receive(*of, work.number, completion);
    if (of->loss && (of->all_exchanged() || of->receives_posted() == 0)) end_lost(*of);
  } else {
    if (work.kind == work_kind::send) of->complete_send(work.number);
    else of->complete_operation(work.number);
    report_finished(*of);
    settle(*of);
    mark_dirty(*of);
  }
  if (of->take_writable()) events_.push(event_kind::writable, of->self());
}

void engine::handle_shared_receive(const work_id& work, const ibv_wc& completion) {
  const std::shared_ptr<receive_pool> pool = find_pool(work.connection.value());
  if (!pool) return;
  // The queue pair is valid in failed completions too.
  const handle user = pool->user_of(completion.qp_num);
  connection* of = find(user);
  pool->arrived(work.number, user);
  if (of != nullptr && completion.status == IBV_WC_SUCCESS && handle_receive(*of, work.number, completion)) {
    if (of->take_writable()) events_.push(event_kind::writable, of->self());
    return;
  }
  pool->give_back(work.number);
  if (of != nullptr && completion.status != IBV_WC_SUCCESS) handle_failed_completion(*of, work, completion);
}

bool engine::handle_receive(connection& of, uint32_t slot, const ibv_wc& completion) {
  connection::received_frame frame{};
  if (of.doomed && of.first_failure && of.first_failure->reason == "protocol") return false;
  if (auto why = of.receive(slot, completion, frame)) {
    doom(of, std::move(why));
    return false;
  }
  // A message may bring what a control frame waits for.
  if (of.may_be_lent_more() || of.waits_for_control_credit()) mark_dirty(of);
  if (frame.type == frame_type::data) {
    events_.push(event_kind::message, of.self(), static_cast<int32_t>(slot), static_cast<int32_t>(frame.length));
    return true;
  }
  switch (frame.type) {
    case frame_type::large:
      events_.push(event_kind::advertised, of.self(), static_cast<int32_t>(slot), static_cast<int32_t>(frame.length));
      return true;
    case frame_type::ready:
      of.enter(connection_phase::open);
      report_up(of, event_kind::accepted);
      break;
    case frame_type::close:
      events_.push(event_kind::peer_closing, of.self());
      break;
    case frame_type::pong:
      events_.push(event_kind::pong, of.self());
      break;
    case frame_type::note:
      events_.push(event_kind::note, of.self());
      break;
    case frame_type::answer:
      events_.push(event_kind::answer, of.self());
      break;
    case frame_type::abort:
    case frame_type::refusal: {
      const auto* text = reinterpret_cast<const char*>(of.payload(slot));
      const char* reason = frame.type == frame_type::abort ? "peer-aborted" : "remote-access";
      doom(of, failure{reason, std::string(text, frame.length)});
      break;
    }
    default:
      break;
  }
  mark_dirty(of);
  return true;
}

void engine::handle_failed_completion(connection& of, const work_id& work, const ibv_wc& completion) {
  if (of.doomed) return;
  // What is flushed while a connection is being set up only says that the attempt has failed. Why, the connection
  // manager tells, which may be later; its deadlines are those of the attempt.
  if (completion.status == IBV_WC_WR_FLUSH_ERR && of.phase() != connection_phase::open && !of.loss) return;
  failure why = failure_of(of, work, completion);
  if (!of.loss) lose(of, std::move(why));
  // That the connection broke, which may be told first, is what came of it.
  else if (why.reason == "protocol") of.loss = std::move(why);
  if (work.kind == work_kind::receive) end_lost(of);
}

}  // namespace verbmq
