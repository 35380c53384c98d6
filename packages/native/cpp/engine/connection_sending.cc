// A connection's send queue: what waits is staged as far as both gates allow, posted as one chain, and completed.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/connection.h"
#include "verbs/verbs_error.h"

namespace verbmq {

void connection::stage(frame_type type, send_class what, uint8_t* frame, uint32_t length, bool signalled) {
  frame_header header{type, 0, 0, length, next_sequence_++, 0, 0};
  if (type != frame_type::abort && type != frame_type::refusal) {
    // The room that an abort makes is for nobody: the peer's waiting sends are to fail.
    header.control_credits = credits_.take_control();
    header.data_credits = credits_.take_data();
    const large_inbox::counts counts = incoming_.tell();
    header.large_read = counts.read;
    header.large_released = counts.released;
  }
  header.write(frame);
  const auto bytes = static_cast<uint32_t>(frame_header::bytes) + length;

  // One in several is signalled: enough to learn in time that slots are free, and no interrupt for each message.
  if (what == send_class::farewell) {
    signalled = true;
    ++farewells_outstanding_;
  }
  if (what == send_class::data) {
    credits_.sent_data();
    signalled = signalled || ++unsignalled_data_ >= std::max(1u, sizes_.send_slots / 4);
  } else {
    credits_.sent_control();
    ++control_outstanding_;
    signalled = signalled || ++unsignalled_control_ >= control_send_slots / 4;
  }
  if (signalled) {
    unsignalled_data_ = 0;
    unsignalled_control_ = 0;
  }

  staged_.emplace_back();
  staged_send& staged = staged_.back();
  staged.request.wr_id = work_id{self_, work_kind::send, ledger_.push(what)}.encode();
  staged.request.opcode = IBV_WR_SEND;
  staged.request.num_sge = 1;
  if (signalled) staged.request.send_flags |= IBV_SEND_SIGNALED;
  if (bytes <= limits_.inline_bytes) staged.request.send_flags |= IBV_SEND_INLINE;
  staged.piece = {reinterpret_cast<uintptr_t>(frame), bytes, send_region_->lkey()};
}

void connection::stage_operations() {
  while (auto piece = operations_.next()) {
    ibv_send_wr& request = piece->request;
    request.wr_id = work_id{self_, work_kind::operation, piece->number}.encode();
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    if (request.opcode == IBV_WR_RDMA_WRITE && piece->local.length <= limits_.inline_bytes) {
      request.send_flags |= IBV_SEND_INLINE;
    }
    staged_.push_back({request, piece->local});
  }
}

bool connection::may_stage_control() noexcept {
  if (!credits_.may_send_control()) {
    waits_for_control_credit_ = true;
    return false;
  }
  return !ledger_.full() && control_outstanding_ < control_send_slots;
}

bool connection::stage_control(frame_type type, send_class what, bool signalled) {
  if (!may_stage_control()) return false;
  uint8_t* frame = memory_.control_frame(sizes_, next_control_frame_);
  next_control_frame_ = (next_control_frame_ + 1) % control_send_slots;
  stage(type, what, frame, 0, signalled);
  return true;
}

// What an idle side has been lent of a shared pool goes back with its answer.
bool connection::stage_pong() {
  const bool idle = pending_.empty() && peer_.withheld_slots > 0;
  if (!may_stage_control()) return false;
  const uint32_t unused = idle ? credits_.return_unused() : 0;
  if (unused == 0) return stage_control(frame_type::pong, send_class::control);
  move_gate(gate_limit, static_cast<uint32_t>(memory_.gate[gate_limit]) - unused);
  uint8_t* frame = memory_.control_frame(sizes_, next_control_frame_);
  next_control_frame_ = (next_control_frame_ + 1) % control_send_slots;
  pong_payload{static_cast<uint16_t>(unused)}.write(frame + frame_header::bytes);
  stage(frame_type::pong, send_class::control, frame, pong_payload::bytes);
  return true;
}

// One buffer of each kind is enough: the peer has read the last question when it answers, and the last answer when it asks.
bool connection::stage_note(frame_type type, uint8_t* frame, const note_bytes& said) {
  if (!may_stage_control()) return false;
  std::memcpy(frame + frame_header::bytes, said.data(), said.size());
  stage(type, send_class::control, frame, static_cast<uint32_t>(said.size()));
  return true;
}

void connection::stage_all() {
  waits_for_control_credit_ = false;
  if (wants_.abort) {
    // Nothing follows an abort, so it does not wait for the data before it.
    if (abort_sent_) return;
    if (!credits_.may_send_abort()) {
      waits_for_control_credit_ = true;
      return;
    }
    const size_t room = std::min<size_t>(abort_text_bytes, peer_.slot_bytes - frame_header::bytes);
    const size_t length = std::min(room, abort_text_.size());
    uint8_t* frame = memory_.abort_frame(sizes_);
    std::memcpy(frame + frame_header::bytes, abort_text_.data(), length);
    stage(abort_type_, send_class::farewell, frame, static_cast<uint32_t>(length));
    abort_sent_ = true;
    return;
  }
  if (wants_.ready && stage_control(frame_type::ready, send_class::control)) wants_.ready = false;
  if (wants_.ready) return;
  // Before the messages, so that one that tells of a write finds it done.
  stage_operations();
  while (pending_head_ < pending_.size() && credits_.may_send_data() && !ledger_.full()) {
    const pending_send& next = pending_[pending_head_++];
    stage(next.type, send_class::data, memory_.send_slot(sizes_, next.slot), next.bytes);
    if (next.type == frame_type::large) outgoing_.advertised();
  }
  if (pending_head_ == pending_.size()) {
    pending_.clear();
    pending_head_ = 0;
    if (wants_.close && !close_sent_) close_sent_ = stage_control(frame_type::close, send_class::farewell);
  }
  if (const note_bytes* said = notes_.answer()) {
    if (stage_note(frame_type::answer, memory_.answer_frame(sizes_), *said)) notes_.answer_sent();
  }
  if (const note_bytes* said = notes_.question()) {
    if (stage_note(frame_type::note, memory_.note_frame(sizes_), *said)) notes_.question_sent();
  }
  if (wants_.pong && stage_pong()) wants_.pong = false;
  if (wants_.ping && stage_control(frame_type::ping, send_class::control)) wants_.ping = false;
  if (wants_.fence && pending_.empty()) {
    const bool needed = unsignalled_data_ > 0;
    if (!needed || stage_control(frame_type::credit, send_class::control, true)) wants_.fence = false;
  }
  // Whoever waits for large messages to be read, or for the window, is told at once.
  if (credits_.grant_is_due() || incoming_.has_news()) {
    // After the close, this may be what the peer still waits for.
    stage_control(frame_type::credit, close_sent_ ? send_class::farewell : send_class::control);
  }
}

std::optional<failure> connection::post_staged() {
  if (staged_.empty()) return std::nullopt;
  for (size_t i = 0; i < staged_.size(); ++i) {
    staged_[i].request.sg_list = &staged_[i].piece;
    staged_[i].request.next = i + 1 < staged_.size() ? &staged_[i + 1].request : nullptr;
  }
  ibv_send_wr* refused = nullptr;
  const int error_number = errno_of(ibv_post_send(id_->queue_pair(), &staged_.front().request, &refused));

  // Without the one that was refused nobody knows which were posted.
  const bool is_known = error_number == 0 || refused != nullptr;
  size_t posted = 0;
  while (posted < staged_.size() && (error_number == 0 || &staged_[posted].request != refused)) ++posted;
  staged_.erase(staged_.begin(), staged_.begin() + static_cast<std::ptrdiff_t>(posted));

  // A full send queue is backpressure: what stays staged goes when earlier sends are complete.
  const size_t outstanding = ledger_.outstanding() + operations_.outstanding();
  if (error_number == 0 || (error_number == ENOMEM && is_known && outstanding > staged_.size())) {
    return std::nullopt;
  }
  return refusal("ibv_post_send", error_number);
}

failure connection::refusal(const char* call, int error_number) const {
  // The device may know of the end before any event or completion tells of it.
  const bool was_up = phase_ == connection_phase::open || phase_ == connection_phase::accepting;
  if (was_up && (error_number == ENOTCONN || id_->has_failed())) {
    return {"lost", "the connection was lost: its queue pair takes no more work"};
  }
  const verbs_error error = call_failed(call, error_number);
  return {error.reason(), error.what()};
}

std::optional<failure> connection::flush() {
  if (phase_ != connection_phase::open && phase_ != connection_phase::accepting) return std::nullopt;
  if (free_slots_.size() >= repost_group() || free_control_ > 0 || may_be_lent_more_) post_receives();
  if (post_failure_) return std::exchange(post_failure_, std::nullopt);
  // The accepting side is silent until it has heard from the other one, as iWARP demands.
  if (phase_ != connection_phase::open) return std::nullopt;
  stage_all();
  return post_staged();
}

void connection::complete_send(uint32_t number) noexcept {
  const send_ledger::completed done = ledger_.complete(number);
  control_outstanding_ -= done.control;
  farewells_outstanding_ -= done.farewell;
  move_gate(gate_completed, static_cast<uint32_t>(memory_.gate[gate_completed]) + done.data);
}

bool connection::take_writable() noexcept {
  if (!gate_moved_) return false;
  gate_moved_ = false;
  if (memory_.gate[gate_want_writable] == 0) return false;
  memory_.gate[gate_want_writable] = 0;
  return true;
}

}  // namespace verbmq
