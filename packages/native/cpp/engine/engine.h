// All RDMA of one transport object: listeners, connections, devices, completions. Single-threaded; whoever drives it
// (napi/loop_driver) calls it from the thread that made it, and is told what happened through event records.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/connection.h"
#include "engine/device_resources.h"
#include "engine/events.h"
#include "engine/receive_pool.h"
#include "engine/socket_address.h"
#include "verbs/cm_id.h"

namespace verbmq {

class verbs_error;

/// What the engine needs of its surroundings.
class engine_host {
 public:
  virtual ~engine_host() = default;
  enum class readable {
    cm_events,     // rdma_cm has something to tell: handle_cm_events()
    completions,   // an armed completion queue has work: poll(), consume_completion_events(), arm()
    device_events  // a device has something to report: handle_device_events()
  };
  /// Watches a descriptor until the object returned is let go. Throws verbs_error.
  virtual std::shared_ptr<void> watch(int fd, readable what) = 0;
  /// What a call waits for that is made on another thread: one's own device, for seconds, or a peer, for minutes.
  enum class awaited { device, peer };
  /// Runs `work` on another thread, then `done` on this one. When this one waits for it no longer, `left` comes in the place of `done`, on
  /// that other thread, after the end of the engine.
  virtual void run_elsewhere(awaited what, std::function<void()> work, std::function<void()> done,
                             std::function<void()> left) = 0;
  /// Calls `due` after so many milliseconds, unless the object returned is let go before.
  virtual std::shared_ptr<void> after(uint32_t delay_ms, std::function<void()> due) = 0;
};

/// What a device has reported by itself, or what became of it.
struct device_notice {
  std::string device;
  std::string event;  // device_event_name(), or "removed"
  int port;           // 0 when it is not about a port
};

/// What JavaScript is told of a connection that is up.
struct connection_description {
  std::string device;
  bool iwarp;
  bool atomics;  // on both sides
  bool fork_hides_pages;
  uint32_t inline_bytes;
  uint32_t read_depth;
  uint32_t peer_slot_bytes;
  uint64_t peer_max_message_bytes;
  uint32_t peer_window_bytes;  // 0 when this side can send no large messages
  std::array<uint8_t, hello::secret_bytes> secret;
  std::array<uint8_t, hello::secret_bytes> peer_secret;
  host_and_port local;
  host_and_port remote;
};

class engine {
 public:
  engine(std::shared_ptr<const verbs_library> library, engine_host& host);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  // Calls from JavaScript. They throw verbs_error, or do nothing for a handle that has ended.
  handle listen(const socket_address& address, int backlog);
  host_and_port listener_address(handle listener) const;
  void close_listener(handle listener);
  handle connect(const socket_address& remote, const std::optional<socket_address>& local,
                 const connection_sizes& sizes, connection_memory memory, int timeout_ms);
  void accept(handle request, const connection_sizes& sizes, connection_memory memory);
  void reject(handle request, reject_reason reason);
  /// Sends the close frame behind everything submitted.
  void send_close(handle connection);
  /// Both sides have closed: ends the connection when the peer has our close.
  void finish(handle connection);
  /// Tells the peer, if that is still possible, and ends the connection when it knows, or after `timeout_ms`. destroy() does
  /// not wait. `type`: abort or refusal.
  void abort(handle connection, std::string text, frame_type type, uint32_t timeout_ms);
  void destroy(handle connection);
  /// Of a connection that was reported as connected or accepted, also when it has ended since. Answered once.
  connection_description take_description(handle connection);
  /// Why a connection or listener ended; each answer is given once.
  std::optional<failure> take_failure(handle ended);
  /// What devices have reported since the last call.
  std::vector<device_notice> take_device_notices() { return std::exchange(notices_, {}); }

  /// Lets a request share the receive slots of its device with other connections, before it is accepted. Returns the number of
  /// their pool, or 0 when there is none yet on this device: then make_receive_pool().
  uint32_t join_receive_pool(handle request);
  /// Likewise, with a new pool. It lives until the last connection that shares it has ended. Throws verbs_error.
  uint32_t make_receive_pool(handle request, const receive_pool_sizes& sizes, uint8_t* base,
                             std::shared_ptr<void> owner);
  struct receive_pool_totals {
    uint32_t slots = 0;
    uint32_t posted_slots = 0;
    uint32_t lent_slots = 0;  // beyond what each connection is sure of
    uint32_t connections = 0;
    uint32_t ran_low = 0;  // how often a device has warned that few receives are left
  };
  receive_pool_totals shared_receive_totals() const;

  /// Registers memory for one connection, until deregistered or until the connection has ended. `owner` keeps the
  /// bytes alive. Throws verbs_error.
  struct registration {
    region_number region;
    uint64_t address;
    uint32_t rkey;
  };
  registration register_memory(handle connection, uint8_t* base, size_t bytes, uint32_t uses,
                               std::shared_ptr<void> owner);
  void deregister_memory(handle connection, region_number region);
  /// What is registered now, slabs included.
  struct memory_totals {
    uint64_t bytes = 0;
    size_t regions = 0;
  };
  memory_totals registered_memory_totals() const;
  /// Connections that have ended, and attempts to connect, for which another thread waits.
  size_t pending_calls() const noexcept { return elsewhere_.size(); }

  // Notes about exposed memory, each of which is answered before the next. False when it is not this side's turn.
  bool send_note(handle connection, note_bytes said);
  bool send_answer(handle connection, note_bytes said);
  /// Nothing when the connection has ended since it arrived.
  std::optional<note_bytes> take_note(handle connection);
  std::optional<note_bytes> take_answer(handle connection);

  /// Takes `count` records of submissions. Nothing is posted before flush().
  void submit(const event_record* records, size_t count);
  /// Posts for every connection that has something to say, and ends those that are to end.
  void flush();

  // The loop.
  /// Handles what rdma_cm has to tell, or the first part of it: the descriptor then stays readable.
  void handle_cm_events();
  /// Handles what the devices have to report; what is to end does so with the next flush.
  void handle_device_events();
  /// Handles up to `batch` completions; returns how many there were.
  size_t poll();
  void arm();
  void consume_completion_events();
  event_queue& events() noexcept { return events_; }

  /// Something is open, or an end is still to be told: the process should live.
  bool active() const noexcept { return live_ > 0 || !events_.empty(); }
  bool has_connections() const noexcept { return queue_pairs_ > 0; }
  /// A connection waits for room in a device's queue: poll again soon even when nothing is heard.
  /// Or one is ending, and its device may not say when it is done.
  bool stalled() const noexcept { return stalled_ || !draining_.empty(); }

 private:
  static constexpr size_t batch = 64;

  struct entry {
    uint32_t generation = 1;
    std::shared_ptr<connection> peer;
    std::unique_ptr<cm_id> listening;
  };

  /// The channel of rdma_cm, watched: another one when the last has failed. Throws verbs_error.
  const std::shared_ptr<event_channel>& channel();
  /// Every handle names something.
  bool full() const noexcept { return free_entries_.empty() && entries_.size() > handle::max_index; }
  handle reserve_entry();
  void free_entry(handle freed);
  connection* find(handle wanted) const;
  cm_id* find_listener(handle wanted) const;
  connection* find(const rdma_cm_id* id) const;
  std::shared_ptr<device_resources> device_of(const cm_id& id);
  void create_queue_pair(connection& of);
  /// It is no longer one of those that are worth polling for, if it was.
  void uncount(connection& of) noexcept;
  void mark_dirty(connection& of);
  /// Reports that a connection is up, and keeps what JavaScript will ask about it.
  void report_up(connection& of, event_kind kind);
  /// The connection ends at the next reap(); the first reason given counts.
  void doom(connection& of, std::optional<failure> why);
  /// The connection is lost. It ends when everything that its device has received is taken: for what the peer has said in
  /// it, for what the device itself has to report, or for this.
  void lose(connection& of, failure why);
  /// Everything that was received on a lost connection is taken.
  void end_lost(connection& of);
  /// The connection ends without what its device has still to say, when that takes too long.
  void limit_end(connection& of, uint32_t timeout_ms);
  void reap();
  /// What every connection and listener stands on has failed. Nothing is asked of it any more.
  void fail_channel(const verbs_error& error);
  /// Dooms the connections that use this queue pair or completion queue.
  void fail_users_of(object_name queue, const failure& why);
  void lose_users_of(object_name queue, const failure& why);
  void fail_queues(device_resources& device);
  /// Nothing on this device can work any more. Listeners on it hear of a removal themselves.
  void lose_device(ibv_context* context, const std::string& event);
  failure lost_device(ibv_context* context) const;
  /// Nothing is left of it; that its device is gone may be why.
  void attempt_failed();
  void release_lost_devices();
  void ask_for_devices(uint32_t again_after_ms);
  bool lost_devices_are_let_go() const;
  void notify(ibv_context* context, const std::string& event, int port = 0);
  void handle_device_event(device_resources& device, const device_event& event);
  void handle_pool_event(const device_event& event);
  void was_drained(object_name queue_pair);

  std::optional<cm_event> next_cm_event();
  void handle_cm_event(const cm_event& event);
  void handle_connect_request(const cm_event& event);
  static void refuse(cm_id& request, reject_reason reason) noexcept;
  void handle_established(connection& of, const cm_event& event);
  void resolve_address(connection& of);
  /// Whether the place of a connection is its own until the device has let go of it, or may be another one's by now: its handle then
  /// may be as well, since generations come round.
  enum class place { kept, given_away };
  void end_elsewhere(std::shared_ptr<connection> of, place its);
  static void end_any_thread(std::shared_ptr<connection> of);
  void ended_elsewhere(handle ended, place its);
  void connect_now(connection& of);
  void connect_elsewhere(connection& of);
  size_t poll_devices();
  void take_all_completions() {
    while (poll_devices() == batch) {
    }
  }
  void handle_completion(const ibv_wc& completion);
  /// False when the frame is of no use, and neither is its slot.
  bool handle_receive(connection& of, uint32_t slot, const ibv_wc& completion);
  void handle_shared_receive(const work_id& work, const ibv_wc& completion);
  std::shared_ptr<receive_pool> find_pool(uint32_t number) const;
  void post_pools();
  void fail_pool(const std::shared_ptr<receive_pool>& failed, const std::string& why);
  void release_late(uint32_t pool, handle by, uint32_t slot);
  /// Lets the device finish with the receives that it has taken for a connection. False when there is nothing to wait for.
  bool drain(connection& of);
  /// Dooms again those that are drained, or have waited long enough; true when there are any.
  bool take_drained();
  void handle_failed_completion(connection& of, const work_id& work, const ibv_wc& completion);
  void settle(connection& of);
  /// Takes the submission at `record`; answers how many records it took.
  size_t submit_one(const event_record* record, size_t available);
  void report_finished(connection& of);

  engine_host& host_;
  std::shared_ptr<const verbs_library> library_;
  std::shared_ptr<event_channel> channel_;  // none when it has failed
  std::shared_ptr<void> channel_watch_;
  // Their connections own them: no device is held when nothing is connected over it.
  std::map<ibv_context*, device_resources*> devices_;
  std::vector<entry> entries_;
  std::vector<uint32_t> free_entries_;
  std::vector<handle> dirty_;
  std::vector<handle> doomed_;
  std::vector<handle> draining_;
  std::set<std::shared_ptr<connection>> elsewhere_;  // those that another thread uses
  std::map<uint32_t, std::weak_ptr<receive_pool>> pools_;  // by their numbers
  uint32_t last_pool_ = 0;
  std::map<uint32_t, failure> failures_;
  std::map<uint32_t, connection_description> descriptions_;
  event_queue events_;
  std::vector<device_notice> notices_;
  bool device_may_be_gone_ = false;
  std::set<const ibv_context*> lost_devices_;  // those that librdmacm may have open still
  std::shared_ptr<void> ask_again_;
  std::array<ibv_wc, batch> completions_;
  size_t live_ = 0;
  size_t queue_pairs_ = 0;
  bool stalled_ = false;
  /// Dies with the engine: work that comes back from another thread looks whether it is still wanted.
  std::shared_ptr<engine*> self_ = std::make_shared<engine*>(this);
};

}  // namespace verbmq
