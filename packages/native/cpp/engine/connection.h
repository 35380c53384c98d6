// One connection: its queue pair, its slab, its credits and what it still has to say. The engine drives it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/credits.h"
#include "engine/device_resources.h"
#include "engine/large_messages.h"
#include "engine/memory_layout.h"
#include "engine/note_exchange.h"
#include "engine/operation_queue.h"
#include "engine/receive_pool.h"
#include "engine/region_table.h"
#include "engine/send_ledger.h"
#include "engine/socket_address.h"
#include "engine/wire.h"
#include "engine/work_id.h"
#include "verbs/cm_id.h"

namespace verbmq {

/// Why a connection ended, in a stable word and in a sentence.
struct failure {
  std::string reason;
  std::string message;
};

enum class connection_phase { resolving_address, resolving_route, connecting, requested, accepting, open };

class connection {
 public:
  connection(handle self, std::unique_ptr<cm_id> id, connection_phase phase)
      : self_(self), id_(std::move(id)), phase_(phase) {}
  /// The queue pair goes first: after that the device touches nothing, and the memory may be given back.
  ~connection();
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  /// Nobody waits for it any more, while the kernel, or another thread, still uses the identifier and the queue pair. That can receive
  /// nothing from here on, and none of the memory is registered; so the device touches none of it, whatever was posted.
  void let_go_of_memory() noexcept;
  /// Whether that has been done.
  bool is_let_go_any_thread() const noexcept { return let_go_; }

  handle self() const noexcept { return self_; }
  cm_id& id() const noexcept { return *id_; }
  connection_phase phase() const noexcept { return phase_; }
  void enter(connection_phase phase) noexcept { phase_ = phase; }
  bool has_queue_pair() const noexcept { return reservation_ != nullptr; }

  void set_memory(const connection_sizes& sizes, connection_memory memory);
  /// Before create_queue_pair(): the receive slots are those of a pool.
  void share_receives(std::shared_ptr<receive_pool> pool) { pool_ = std::move(pool); }
  const std::shared_ptr<receive_pool>& pool() const noexcept { return pool_; }
  const connection_sizes& sizes() const noexcept { return sizes_; }

  /// Registers the slab, creates the queue pair and posts every receive slot: before connect or accept, so that the
  /// first frame of the peer finds them. Throws verbs_error.
  void create_queue_pair(device_resources& device);
  hello own_hello() const noexcept;
  /// The peer's hello, before there is memory for the connection.
  void announce(const hello& peer) noexcept { peer_ = peer; }
  void set_peer(const hello& peer) noexcept;
  const hello& peer() const noexcept { return peer_; }
  /// Whether this side's device lets the peer read, and there is room for the frame that tells of it.
  bool may_advertise() const noexcept {
    return device_->attributes().max_qp_rd_atom > 0 && peer_.slot_bytes >= frame_header::bytes + advertisement::bytes;
  }
  bool has_atomics() const noexcept { return device_->attributes().atomic_cap != IBV_ATOMIC_NONE; }
  uint32_t inline_bytes() const noexcept { return limits_.inline_bytes; }
  const device_resources* device() const noexcept { return device_; }

  // Registered memory beside the slab. It lives until it is removed, or until the connection has ended.
  region_number add_memory(uint8_t* base, size_t bytes, uint32_t uses, std::shared_ptr<void> owner);
  void remove_memory(region_number number) { regions_.remove(number); }
  std::shared_ptr<const registered_memory> memory(region_number number) const { return regions_.find(number); }
  const region_table& regions() const noexcept { return regions_; }
  size_t slab_bytes() const noexcept { return send_region_ ? memory_.bytes : 0; }
  /// In how many pieces it is registered.
  size_t slab_regions() const noexcept { return (receive_region_ ? 1 : 0) + (send_region_ ? 1 : 0); }

  /// Reads and atomics that may be in flight, as both devices have agreed.
  void set_read_depth(uint32_t depth) noexcept { operations_.configure(depth, port_bytes_); }
  uint32_t read_depth() const noexcept { return operations_.read_depth(); }

  // From the submission ring. False for arguments out of range, which only a fault in this package can give.
  bool submit(uint32_t slot, uint32_t bytes);
  bool release(uint32_t slot);
  bool submit(operation wanted);
  /// Tells the peer, from send slot `slot`, of a message that lies in this side's memory.
  bool advertise(uint32_t slot, std::shared_ptr<const registered_memory> memory, uint64_t offset, uint64_t bytes);
  /// Reads the message that receive slot `slot` tells of.
  bool fetch(uint32_t slot, std::shared_ptr<const registered_memory> memory, uint64_t offset);
  /// A fetch is complete.
  void was_fetched(uint32_t slot) { incoming_.was_read(slot); }

  // Frames that go out with the next flush. Asking twice before it sends one.
  void want_ready() noexcept { wants_.ready = true; }
  void want_ping() noexcept { wants_.ping = true; }
  void want_close() noexcept { wants_.close = true; }
  /// Most sends are not signalled; a signalled frame behind them tells that they are complete.
  void want_fence() noexcept { wants_.fence = true; }
  /// `type`: abort or refusal.
  void want_abort(std::string text, frame_type type);
  /// What waits in it goes out with the next flush.
  note_exchange& notes() noexcept { return notes_; }

  /// Reposts, and posts everything that both gates allow in one chain. Returns why the queue pair refused.
  std::optional<failure> flush();

  /// What a frame means for the engine; everything else has been dealt with.
  struct received_frame {
    frame_type type;
    uint32_t length;
  };
  /// Takes a frame that arrived in `slot`, with a completion that succeeded; anything that breaks the protocol is a failure.
  std::optional<failure> receive(uint32_t slot, const ibv_wc& completion, received_frame& frame);
  /// The peer has used its credits up; flush() sees whether the pool lends it more.
  bool may_be_lent_more() const noexcept { return may_be_lent_more_; }
  /// A control frame, or an abort, waits for the peer to give a slot back; flush() sees whether it has.
  bool waits_for_control_credit() const noexcept { return waits_for_control_credit_; }
  /// Receives of its own that the device has not completed; those that are shared are not counted.
  uint32_t receives_posted() const noexcept { return receives_posted_; }
  const uint8_t* payload(uint32_t slot) const { return receive_slot(slot) + frame_header::bytes; }

  /// Completes the send `number` and all sends before it.
  void complete_send(uint32_t number) noexcept;
  /// Completes a piece of an operation.
  void complete_operation(uint32_t number) { operations_.complete(number, finished_); }
  /// Whether a piece belongs to a large message that is being read.
  bool is_fetch(uint32_t number) const noexcept { return operations_.is_fetch(number); }
  /// Operations that are complete and have not been reported; those are done with once they were.
  const std::vector<operation>& finished() const noexcept { return finished_; }
  void reported_finished() noexcept { finished_.clear(); }

  /// True once when JavaScript waits for a gate that has moved.
  bool take_writable() noexcept;

  /// Sends are staged that the device had no room for; flush() tries again.
  bool stalled() const noexcept { return !staged_.empty(); }
  bool close_sent() const noexcept { return close_sent_; }
  bool peer_closed() const noexcept { return peer_closed_; }
  bool abort_sent() const noexcept { return abort_sent_; }
  /// The last frame has been delivered to the peer's device: an abort, or a close and what was still to be said of the
  /// peer's large messages.
  bool farewell_complete() const noexcept {
    return (close_sent_ || abort_sent_) && farewells_outstanding_ == 0 && (abort_sent_ || !incoming_.has_read_news());
  }
  /// Both sides have closed, and each has all of the other's messages.
  bool all_exchanged() const noexcept {
    return close_sent_ && peer_closed_ && outgoing_.all_read() && incoming_.all_read();
  }

  /// An attempt to connect. Over iWARP the kernel waits for the peer's answer when it is disconnected, or its identifier destroyed.
  bool is_attempt() const noexcept { return phase_ <= connection_phase::connecting || connecting_elsewhere; }

  // Bookkeeping of the engine.
  bool dirty = false;         // in the engine's list of connections to flush
  bool doomed = false;        // in the engine's list of connections to end
  bool finish_wanted = false; // both sides have closed; end when the farewell is complete
  std::optional<failure> first_failure;
  bool counted = false;               // among the engine's queue pairs
  bool connecting_elsewhere = false;  // another thread uses the identifier
  /// Set when devices or rdma_cm say that the connection is lost: why, unless the peer's last frames, which may still be on
  /// their way to the completion queue, tell of another end.
  std::optional<failure> loss;
  std::shared_ptr<void> end_deadline;  // while that is open, or an abort is on its way
  handle listener;            // of the accepting side
  uint8_t offered_responder = 0;  // read depths in the peer's request
  uint8_t offered_initiator = 0;
  // Of the connecting side: where to, and how much longer that may be looked for.
  std::optional<socket_address> destination;
  int resolve_left_ms = 0;
  // Of one that shares receives and is ending: when its queue pair goes at the latest.
  std::optional<std::chrono::steady_clock::time_point> drained_by;
  bool drained = false;  // the device has said that its queue pair takes no more of them

 private:
  uint8_t* receive_slot(uint32_t slot) const {
    return pool_ ? pool_->slot(slot) : memory_.receive_slot(sizes_, slot);
  }
  uint32_t repost_group() const noexcept;
  void post_receives();
  void post_shared_receives();
  void count_used_credit();
  bool take_back_credits(uint32_t slot, uint32_t length);
  void move_gate(gate_word word, uint32_t count) noexcept;
  void stage(frame_type type, send_class what, uint8_t* frame, uint32_t length, bool signalled = false);
  bool may_stage_control() noexcept;
  bool stage_control(frame_type type, send_class what, bool signalled = false);
  bool stage_pong();
  void stage_operations();
  bool stage_note(frame_type type, uint8_t* frame, const note_bytes& said);
  void stage_all();
  std::optional<failure> post_staged();
  /// What it means that the device has refused work: the end of the connection, or a fault of the call.
  failure refusal(const char* call, int error_number) const;

  handle self_;
  std::unique_ptr<cm_id> id_;
  connection_phase phase_;
  std::atomic<bool> let_go_{false};

  connection_sizes sizes_{};
  connection_memory memory_{};
  device_resources* device_ = nullptr;
  std::shared_ptr<protection_domain> domain_;
  std::unique_ptr<device_resources::reservation> reservation_;
  std::shared_ptr<receive_pool> pool_;
  pool_share share_;
  bool joined_ = false;  // the pool
  bool may_be_lent_more_ = false;
  uint32_t queue_pair_number_ = 0;
  std::unique_ptr<memory_region> receive_region_;
  std::unique_ptr<memory_region> send_region_;
  region_table regions_;
  queue_pair_limits limits_{};
  uint32_t port_bytes_ = 0;  // the most in one work request

  hello peer_;
  std::array<uint8_t, hello::secret_bytes> secret_{};
  credits credits_;
  send_ledger ledger_{1};
  uint32_t next_sequence_ = 0;
  uint32_t expected_sequence_ = 0;

  struct pending_send {
    uint32_t slot;
    uint32_t bytes;
    frame_type type;
  };
  std::vector<pending_send> pending_;
  size_t pending_head_ = 0;
  operation_queue operations_;
  large_outbox outgoing_;
  large_inbox incoming_;
  note_exchange notes_;
  std::vector<operation> finished_;
  uint32_t unsignalled_data_ = 0;
  uint32_t unsignalled_control_ = 0;
  uint32_t control_outstanding_ = 0;
  bool waits_for_control_credit_ = false;
  uint32_t next_control_frame_ = 0;

  std::vector<uint32_t> free_slots_;  // receive slots waiting to be posted again
  uint32_t receives_posted_ = 0;
  uint32_t free_data_ = 0;
  uint32_t free_control_ = 0;
  std::optional<failure> post_failure_;

  struct {
    bool ready = false;
    bool ping = false;
    bool pong = false;
    bool fence = false;
    bool close = false;
    bool abort = false;
  } wants_;
  std::string abort_text_;
  frame_type abort_type_ = frame_type::abort;
  bool close_sent_ = false;
  bool abort_sent_ = false;
  bool peer_closed_ = false;
  uint32_t farewells_outstanding_ = 0;
  bool gate_moved_ = false;

  // Sends that are written but not posted. Posted as one chain; what the device has no room for stays.
  struct staged_send {
    ibv_send_wr request{};
    ibv_sge piece{};
  };
  std::vector<staged_send> staged_;
  // Scratch of post_receives().
  std::vector<ibv_recv_wr> receive_requests_;
  std::vector<ibv_sge> receive_pieces_;
};

}  // namespace verbmq
