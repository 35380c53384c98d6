#include "engine/connection.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
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

connection::~connection() {
  id_->destroy_queue_pair();
  if (!joined_) return;
  for (const uint32_t slot : free_slots_) pool_->give_back(slot);
  pool_->leave(share_, queue_pair_number_, self_);
}

void connection::create_queue_pair(device_resources& device) {
  device_ = &device;
  const auto receive_depth = static_cast<uint32_t>(connection_memory::receive_slots(sizes_));
  const uint32_t send_depth = sizes_.send_slots + control_send_slots + abort_send_slots + operation_queue::slots;
  const auto device_depth = static_cast<uint32_t>(std::max(0, device.attributes().max_qp_wr));
  if (std::max(receive_depth, send_depth) > device_depth) {
    throw verbs_error("no-resources", "rdma_create_qp", 0,
                      "the device allows " + std::to_string(device_depth) +
                          " work requests a queue; configure fewer slots");
  }
  if (pool_) {
    pool_->join(share_, sizes_.data_slots);
    joined_ = true;
  }
  reservation_ = device.reserve(receive_depth + send_depth);
  domain_ = pool_ ? pool_->domain_for(device) : std::make_shared<protection_domain>(device.shared_context());
  if (!pool_) {
    receive_region_ = std::make_unique<memory_region>(domain_, memory_.base, connection_memory::receive_bytes(sizes_),
                                                      IBV_ACCESS_LOCAL_WRITE);
  }
  send_region_ = std::make_unique<memory_region>(domain_, memory_.send_slot(sizes_, 0),
                                                 connection_memory::send_bytes(sizes_), 0);
  limits_ = id_->create_queue_pair(domain_, reservation_->queue(), {send_depth, receive_depth, wished_inline_bytes},
                                   pool_ ? pool_->receives() : receive_side{});
  if (getrandom(secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size())) {
    throw call_failed("getrandom", errno);
  }
  port_bytes_ = device.context().port(id_->device_port()).max_msg_sz;
  ledger_ = send_ledger(send_depth);
  credits_ = credits(sizes_.data_slots, pool_ ? receive_pool::control_slots : control_receive_slots);
  if (pool_) {
    queue_pair_number_ = id_->queue_pair()->qp_num;
    pool_->use(queue_pair_number_, self_);
    credits_.withhold(sizes_.data_slots - share_.quota);
    credits_.lends(share_.quota);
  }
  incoming_ = large_inbox(sizes_.window_bytes);
  staged_.reserve(send_depth);
  receive_requests_.resize(receive_depth);
  receive_pieces_.resize(receive_depth);
  for (uint32_t slot = 0; slot < receive_depth; ++slot) free_slots_.push_back(slot);
  post_receives();
  if (post_failure_) throw verbs_error(post_failure_->reason, "ibv_post_recv", 0, post_failure_->message);
}

region_number connection::add_memory(uint8_t* base, size_t bytes, uint32_t uses, std::shared_ptr<void> owner) {
  return regions_.add(domain_, device_->context().is_iwarp(), base, bytes, uses, std::move(owner));
}

hello connection::own_hello() const noexcept {
  hello own;
  own.slot_bytes = sizes_.slot_bytes;
  own.data_slots = static_cast<uint16_t>(sizes_.data_slots);
  own.control_slots = pool_ ? receive_pool::control_slots : control_receive_slots;
  own.withheld_slots = static_cast<uint16_t>(pool_ ? sizes_.data_slots - receive_pool::guaranteed_data_slots : 0);
  own.max_message_bytes = sizes_.max_message_bytes;
  // Large messages are read, which a device may not be able to.
  own.window_bytes = device_->attributes().max_qp_init_rd_atom > 0 ? sizes_.window_bytes : 0;
  own.atomics = has_atomics();
  own.secret = secret_;
  return own;
}

void connection::set_peer(const hello& peer) noexcept {
  peer_ = peer;
  credits_.set_peer(peer.data_slots, peer.control_slots, peer.withheld_slots);
  memory_.gate[gate_limit] = peer.data_slots - peer.withheld_slots;
}

bool connection::submit(uint32_t slot, uint32_t bytes) {
  if (slot >= sizes_.send_slots || bytes > sizes_.slot_bytes - frame_header::bytes) return false;
  pending_.push_back({slot, bytes, frame_type::data});
  return true;
}

bool connection::advertise(uint32_t slot, std::shared_ptr<const registered_memory> memory, uint64_t offset,
                           uint64_t bytes) {
  if (slot >= sizes_.send_slots || memory == nullptr || bytes == 0 || !memory->holds(offset, bytes)) return false;
  const uint64_t address = reinterpret_cast<uintptr_t>(memory->base()) + offset;
  advertisement{address, memory->rkey(), static_cast<uint32_t>(bytes)}.write(memory_.send_slot(sizes_, slot) +
                                                                             frame_header::bytes);
  outgoing_.waits(std::move(memory));
  pending_.push_back({slot, advertisement::bytes, frame_type::large});
  return true;
}

bool connection::fetch(uint32_t slot, std::shared_ptr<const registered_memory> memory, uint64_t offset) {
  const auto bytes = incoming_.to_read(slot);
  if (!bytes) return false;
  const advertisement from = advertisement::read(payload(slot));
  operation wanted{};
  wanted.kind = operation_kind::fetch;
  wanted.token = slot;
  wanted.local = std::move(memory);
  wanted.local_offset = offset;
  wanted.bytes = *bytes;
  wanted.remote_address = from.address;
  wanted.rkey = from.rkey;
  return submit(std::move(wanted));
}

void connection::move_gate(gate_word word, uint32_t count) noexcept {
  const auto value = static_cast<int32_t>(count);
  if (memory_.gate[word] == value) return;
  memory_.gate[word] = value;
  gate_moved_ = true;
}

bool connection::release(uint32_t slot) {
  if (pool_ ? !pool_->is_held_by(slot, self_) : slot >= connection_memory::receive_slots(sizes_)) return false;
  incoming_.released(slot);
  free_slots_.push_back(slot);
  ++free_data_;
  return true;
}

bool connection::submit(operation wanted) {
  const bool sane =
      wanted.local != nullptr && wanted.bytes > 0 && wanted.local->holds(wanted.local_offset, wanted.bytes);
  if (sane) operations_.push(std::move(wanted));
  return sane;
}

void connection::want_abort(std::string text, frame_type type) {
  abort_text_ = std::move(text);
  abort_type_ = type;
  wants_.abort = true;
}

// Receives are posted in groups, but never so late that the peer could run out of credits that are due.
uint32_t connection::repost_group() const noexcept {
  return std::max(1u, (pool_ ? share_.quota : sizes_.data_slots) / 8);
}

// What the peer gets for slots that are posted again, the pool decides.
void connection::post_shared_receives() {
  for (const uint32_t slot : free_slots_) pool_->give_back(slot);
  free_slots_.clear();
  if (!pool_->post()) {
    post_failure_ = failure{"device", pool_->failure()};
    return;
  }
  credits_.reposted(pool_->refill(share_, free_data_), free_control_);
  credits_.lends(share_.quota);
  may_be_lent_more_ = false;
  free_data_ = 0;
  free_control_ = 0;
}

void connection::post_receives() {
  if (pool_) return post_shared_receives();
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
  const int error_number = errno_of(ibv_post_recv(id_->queue_pair(), receive_requests_.data(), &refused));
  if (error_number != 0) {
    post_failure_ = refusal("ibv_post_recv", error_number);
    return;
  }
  receives_posted_ += static_cast<uint32_t>(count);
  credits_.reposted(free_data_, free_control_);
  free_slots_.clear();
  free_data_ = 0;
  free_control_ = 0;
}

std::optional<failure> connection::receive(uint32_t slot, const ibv_wc& completion, received_frame& frame) {
  if (!pool_) --receives_posted_;
  // A write with immediate data takes a receive and leaves in its slot what lay there: in a shared one, another peer's frame.
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) return protocol_failure("immediate data instead of a frame");
  const uint32_t bytes = completion.byte_len;
  if (bytes < frame_header::bytes) return protocol_failure("a frame of " + std::to_string(bytes) + " bytes");
  const auto header = frame_header::read(receive_slot(slot));
  if (!header) return protocol_failure("a frame of unknown type");
  if (header->length != bytes - frame_header::bytes) return protocol_failure("a frame of the wrong length");
  if (header->sequence != expected_sequence_++) return protocol_failure("a frame out of sequence");
  const bool is_data = header->type == frame_type::data || header->type == frame_type::large;
  if (!credits_.received(is_data)) return protocol_failure("more frames than slots");
  if (!credits_.granted(header->data_credits, header->control_credits)) {
    return protocol_failure("more credits than slots");
  }
  if (peer_closed_ && is_data) return protocol_failure("a message after its close");
  // Who gives the connection up at once says that first of all.
  const bool is_end = header->type == frame_type::abort || header->type == frame_type::refusal;
  if (!is_end && (header->type == frame_type::ready) != (phase_ == connection_phase::accepting)) {
    return protocol_failure("a first frame at the wrong time");
  }
  move_gate(gate_limit, static_cast<uint32_t>(memory_.gate[gate_limit]) + header->data_credits);
  if (!is_end) {
    if (!outgoing_.heard(header->large_read, header->large_released)) {
      return protocol_failure("it has read messages that it was not told of");
    }
    move_gate(gate_large_read, outgoing_.read());
    move_gate(gate_large_released, outgoing_.released());
  }
  if (header->type == frame_type::data) {
    if (pool_) count_used_credit();
    frame = {frame_type::data, header->length};
    return std::nullopt;
  }
  uint32_t length = header->length;
  if (header->type == frame_type::large) {
    if (length != advertisement::bytes) return protocol_failure("an advertisement of the wrong length");
    length = advertisement::read(payload(slot)).length;
    if (length == 0 || length > sizes_.max_message_bytes) {
      return protocol_failure("it advertises a message of " + std::to_string(length) + " bytes");
    }
    // It would wait for its turn to be read for ever, and its memory with it.
    if (operations_.read_depth() == 0) return protocol_failure("it advertises a message where nothing can be read");
    if (!incoming_.advertised(slot, length)) return protocol_failure("it advertises more than there is room for");
  }
  const bool is_note = header->type == frame_type::note || header->type == frame_type::answer;
  if (is_note && length > note_text_bytes) {
    return protocol_failure("a note about exposed memory of " + std::to_string(length) + " bytes");
  }
  if (header->type == frame_type::note && !notes_.hear_question(payload(slot), length)) {
    return protocol_failure("a note before the last one was answered");
  }
  if (header->type == frame_type::answer && !notes_.hear_answer(payload(slot), length)) {
    return protocol_failure("an answer that nobody asked for");
  }
  if (header->type == frame_type::pong && length > 0 && !take_back_credits(slot, length)) {
    return protocol_failure("it gives back credits that it does not have");
  }
  if (header->type == frame_type::ping) wants_.pong = true;
  if (header->type == frame_type::close) peer_closed_ = true;
  if (is_data) {
    if (pool_) count_used_credit();
  } else {
    free_slots_.push_back(slot);
    ++free_control_;
  }
  frame = {header->type, length};
  return std::nullopt;
}

void connection::count_used_credit() {
  if (pool_->used_credit(share_, credits_.peer_has())) may_be_lent_more_ = true;
}

bool connection::take_back_credits(uint32_t slot, uint32_t length) {
  if (!pool_ || length != pong_payload::bytes) return false;
  const uint32_t unused = pong_payload::read(payload(slot)).unused_data_credits;
  if (!credits_.returned(unused)) return false;
  pool_->take_back(share_, unused);
  credits_.lends(share_.quota);
  return true;
}

}  // namespace verbmq
