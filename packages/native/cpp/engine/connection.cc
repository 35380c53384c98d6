#include "engine/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// Tried first; a device that has less is asked for half, and so on. Covers a small message and its header.
constexpr uint32_t wished_inline_bytes = 256;

failure protocol_failure(std::string what) { return {"protocol", "the peer broke the protocol: " + std::move(what)}; }

}  // namespace

void connection::set_memory(const connection_sizes& sizes, connection_memory memory) {
  sizes_ = sizes;
  memory_ = std::move(memory);
}

void connection::create_queue_pair(device_resources& device) {
  device_ = &device;
  const auto receive_depth = static_cast<uint32_t>(connection_memory::receive_slots(sizes_));
  const uint32_t send_depth = sizes_.send_slots + control_send_slots;
  const auto device_depth = static_cast<uint32_t>(std::max(0, device.attributes().max_qp_wr));
  if (std::max(receive_depth, send_depth) > device_depth) {
    throw verbs_error("no-resources", "rdma_create_qp", 0,
                      "the device allows " + std::to_string(device_depth) +
                          " work requests a queue; configure fewer slots");
  }
  reservation_ = device.reserve(receive_depth + send_depth);
  receive_region_ = std::make_unique<memory_region>(device.domain(), memory_.base,
                                                    connection_memory::receive_bytes(sizes_), IBV_ACCESS_LOCAL_WRITE);
  send_region_ = std::make_unique<memory_region>(device.domain(), memory_.send_slot(sizes_, 0),
                                                 connection_memory::send_bytes(sizes_), 0);
  limits_ = id_->create_queue_pair(device.domain(), reservation_->queue(),
                                   {send_depth, receive_depth, wished_inline_bytes});
  ledger_ = send_ledger(send_depth);
  credits_ = credits(sizes_.data_slots, control_receive_slots);
  staged_.reserve(send_depth);
  receive_requests_.resize(receive_depth);
  receive_pieces_.resize(receive_depth);
  for (uint32_t slot = 0; slot < receive_depth; ++slot) free_slots_.push_back(slot);
  post_receives();
  if (post_failure_) throw verbs_error(post_failure_->reason, "ibv_post_recv", 0, post_failure_->message);
}

hello connection::own_hello() const noexcept {
  hello own;
  own.slot_bytes = sizes_.slot_bytes;
  own.data_slots = static_cast<uint16_t>(sizes_.data_slots);
  own.control_slots = control_receive_slots;
  own.max_message_bytes = sizes_.max_message_bytes;
  return own;
}

void connection::set_peer(const hello& peer) noexcept {
  peer_ = peer;
  credits_.set_peer(peer.data_slots, peer.control_slots);
  memory_.gate[gate_limit] = peer.data_slots;
}

bool connection::submit(uint32_t slot, uint32_t bytes) {
  if (slot >= sizes_.send_slots || bytes > sizes_.slot_bytes - frame_header::bytes) return false;
  pending_.push_back({slot, bytes});
  return true;
}

bool connection::release(uint32_t slot) {
  if (slot >= connection_memory::receive_slots(sizes_)) return false;
  free_slots_.push_back(slot);
  ++free_data_;
  return true;
}

void connection::want_abort(std::string text) {
  abort_text_ = std::move(text);
  wants_.abort = true;
}

void connection::post_receives() {
  if (free_slots_.empty()) return;
  const size_t count = free_slots_.size();
  for (size_t i = 0; i < count; ++i) {
    const uint32_t slot = free_slots_[i];
    receive_pieces_[i] = {reinterpret_cast<uintptr_t>(memory_.receive_slot(sizes_, slot)), sizes_.slot_bytes,
                          receive_region_->lkey()};
    ibv_recv_wr& request = receive_requests_[i];
    request = {};
    request.wr_id = work_id{self_, work_kind::receive, slot}.encode();
    request.sg_list = &receive_pieces_[i];
    request.num_sge = 1;
    request.next = i + 1 < count ? &receive_requests_[i + 1] : nullptr;
  }
  ibv_recv_wr* refused = nullptr;
  const int error_number = ibv_post_recv(id_->queue_pair(), receive_requests_.data(), &refused);
  if (error_number != 0) {
    const verbs_error error = call_failed("ibv_post_recv", error_number > 0 ? error_number : EIO);
    post_failure_ = failure{error.reason(), error.what()};
    return;
  }
  credits_.reposted(free_data_, free_control_);
  free_slots_.clear();
  free_data_ = 0;
  free_control_ = 0;
}

void connection::stage(frame_type type, send_class what, uint8_t* frame, uint32_t length, bool signalled) {
  frame_header header{type, 0, 0, length, next_sequence_++, 0};
  if (type != frame_type::abort) {
    // The room that an abort makes is for nobody: the peer's waiting sends are to fail.
    header.control_credits = credits_.take_control();
    header.data_credits = credits_.take_data();
  }
  header.write(frame);
  const auto bytes = static_cast<uint32_t>(frame_header::bytes) + length;

  // One in several is signalled: enough to learn in time that slots are free, and no interrupt for each message.
  if (what == send_class::farewell) signalled = true;
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

  ibv_send_wr request{};
  request.wr_id = work_id{self_, work_kind::send, ledger_.push(what)}.encode();
  request.opcode = IBV_WR_SEND;
  request.num_sge = 1;
  if (signalled) request.send_flags |= IBV_SEND_SIGNALED;
  if (bytes <= limits_.inline_bytes) request.send_flags |= IBV_SEND_INLINE;
  staged_.push_back({request, {reinterpret_cast<uintptr_t>(frame), bytes, send_region_->lkey()}});
}

bool connection::stage_control(frame_type type, send_class what, bool signalled) {
  if (!credits_.may_send_control() || ledger_.full() || control_outstanding_ >= control_send_slots) return false;
  uint8_t* frame = memory_.control_frame(sizes_, next_control_frame_);
  next_control_frame_ = (next_control_frame_ + 1) % control_send_slots;
  stage(type, what, frame, 0, signalled);
  return true;
}

void connection::stage_all() {
  if (wants_.abort) {
    // Nothing follows an abort, so it does not wait for the data before it.
    if (abort_sent_ || !credits_.may_send_control() || ledger_.full()) return;
    const size_t room = std::min<size_t>(abort_text_bytes, peer_.slot_bytes - frame_header::bytes);
    const size_t length = std::min(room, abort_text_.size());
    uint8_t* frame = memory_.abort_frame(sizes_);
    std::memcpy(frame + frame_header::bytes, abort_text_.data(), length);
    stage(frame_type::abort, send_class::farewell, frame, static_cast<uint32_t>(length));
    abort_sent_ = true;
    return;
  }
  if (wants_.ready && stage_control(frame_type::ready, send_class::control)) wants_.ready = false;
  if (wants_.ready) return;
  while (pending_head_ < pending_.size() && credits_.may_send_data() && !ledger_.full()) {
    const pending_send& next = pending_[pending_head_++];
    stage(frame_type::data, send_class::data, memory_.send_slot(sizes_, next.slot), next.bytes);
  }
  if (pending_head_ == pending_.size()) {
    pending_.clear();
    pending_head_ = 0;
    if (wants_.close && !close_sent_) close_sent_ = stage_control(frame_type::close, send_class::farewell);
  }
  if (wants_.pong && stage_control(frame_type::pong, send_class::control)) wants_.pong = false;
  if (wants_.ping && stage_control(frame_type::ping, send_class::control)) wants_.ping = false;
  if (wants_.fence && pending_.empty()) {
    const bool needed = unsignalled_data_ > 0;
    if (!needed || stage_control(frame_type::credit, send_class::control, true)) wants_.fence = false;
  }
  if (credits_.grant_is_due()) stage_control(frame_type::credit, send_class::control);
}

std::optional<failure> connection::post_staged() {
  if (staged_.empty()) return std::nullopt;
  for (size_t i = 0; i < staged_.size(); ++i) {
    staged_[i].request.sg_list = &staged_[i].piece;
    staged_[i].request.next = i + 1 < staged_.size() ? &staged_[i + 1].request : nullptr;
  }
  ibv_send_wr* refused = nullptr;
  int error_number = ibv_post_send(id_->queue_pair(), &staged_.front().request, &refused);
  if (error_number < 0) error_number = EIO;

  size_t posted = 0;
  while (posted < staged_.size() && (error_number == 0 || &staged_[posted].request != refused)) ++posted;
  staged_.erase(staged_.begin(), staged_.begin() + static_cast<std::ptrdiff_t>(posted));

  // A full send queue is backpressure: what stays staged goes when earlier sends are complete.
  if (error_number == 0 || (error_number == ENOMEM && ledger_.outstanding() > staged_.size())) return std::nullopt;
  const verbs_error error = call_failed("ibv_post_send", error_number);
  return failure{error.reason(), error.what()};
}

std::optional<failure> connection::flush() {
  if (phase_ != connection_phase::open && phase_ != connection_phase::accepting) return std::nullopt;
  // Receives are posted in groups, but never so late that the peer could run out of credits that are due.
  const uint32_t group = std::max(1u, sizes_.data_slots / 8);
  if (free_slots_.size() >= group || free_control_ > 0) post_receives();
  if (post_failure_) return std::exchange(post_failure_, std::nullopt);
  // The accepting side is silent until it has heard from the other one, as iWARP demands.
  if (phase_ != connection_phase::open) return std::nullopt;
  stage_all();
  return post_staged();
}

std::optional<failure> connection::receive(uint32_t slot, uint32_t bytes, received_frame& frame) {
  if (bytes < frame_header::bytes) return protocol_failure("a frame of " + std::to_string(bytes) + " bytes");
  const auto header = frame_header::read(memory_.receive_slot(sizes_, slot));
  if (!header) return protocol_failure("a frame of unknown type");
  if (header->length != bytes - frame_header::bytes) return protocol_failure("a frame of the wrong length");
  if (header->sequence != expected_sequence_++) return protocol_failure("a frame out of sequence");
  const bool is_data = header->type == frame_type::data;
  if (!credits_.received(is_data)) return protocol_failure("more frames than slots");
  if (!credits_.granted(header->data_credits, header->control_credits)) {
    return protocol_failure("more credits than slots");
  }
  if (peer_closed_ && is_data) return protocol_failure("a message after its close");
  if ((header->type == frame_type::ready) != (phase_ == connection_phase::accepting)) {
    return protocol_failure("a first frame at the wrong time");
  }
  if (header->data_credits > 0) {
    memory_.gate[gate_limit] =
        static_cast<int32_t>(static_cast<uint32_t>(memory_.gate[gate_limit]) + header->data_credits);
    gate_moved_ = true;
  }
  if (header->type == frame_type::ping) wants_.pong = true;
  if (header->type == frame_type::close) peer_closed_ = true;
  if (!is_data) {
    free_slots_.push_back(slot);
    ++free_control_;
  }
  frame = {header->type, header->length};
  return std::nullopt;
}

void connection::complete_send(uint32_t number) noexcept {
  const send_ledger::completed done = ledger_.complete(number);
  control_outstanding_ -= done.control;
  if (done.farewell) farewell_complete_ = true;
  if (done.data > 0) {
    memory_.gate[gate_completed] =
        static_cast<int32_t>(static_cast<uint32_t>(memory_.gate[gate_completed]) + done.data);
    gate_moved_ = true;
  }
}

bool connection::take_writable() noexcept {
  if (!gate_moved_) return false;
  gate_moved_ = false;
  if (memory_.gate[gate_want_writable] == 0) return false;
  memory_.gate[gate_want_writable] = 0;
  return true;
}

}  // namespace verbmq
