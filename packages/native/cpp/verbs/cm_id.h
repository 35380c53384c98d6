// Connection management: the event channel and its identifiers, each with the queue pair that rdma_cm drives.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verbs/completion_queue.h"
#include "verbs/object_name.h"
#include "verbs/protection_domain.h"
#include "verbs/verbs_library.h"

namespace verbmq {

/// One event, copied out of the library's memory and already acknowledged: nothing else may hold it, because
/// destroying an id waits for its events.
struct cm_event {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  rdma_cm_id* listen_id;
  uint8_t responder_resources;
  uint8_t initiator_depth;
  std::vector<uint8_t> private_data;
};

class event_channel {
 public:
  /// The descriptor is non-blocking and closed on exec. Throws verbs_error ("no-device", "module-missing", …).
  explicit event_channel(std::shared_ptr<const verbs_library> library);
  ~event_channel();
  event_channel(const event_channel&) = delete;
  event_channel& operator=(const event_channel&) = delete;

  int fd() const noexcept { return channel_->fd; }
  rdma_event_channel* get() const noexcept { return channel_; }
  const std::shared_ptr<const verbs_library>& library() const noexcept { return library_; }

  /// The next event, or nothing when none waits.
  std::optional<cm_event> next();

 private:
  std::shared_ptr<const verbs_library> library_;
  rdma_event_channel* channel_;
};

/// Depths of a queue pair and the inline bytes that were granted.
struct queue_pair_limits {
  uint32_t send_depth;
  uint32_t receive_depth;
  uint32_t inline_bytes;
};

/// Where a queue pair takes its receives from when it has none of its own, and where they complete.
struct receive_side {
  ibv_srq* queue = nullptr;
  std::shared_ptr<void> owner;  // of the queue
  std::shared_ptr<completion_queue> completions;
};

/// A queue pair without its identifier, which knows of none from then on. The call that destroys it may wait: Soft-RoCE waits for
/// packets that are still in a network interface, seconds where the cable was pulled.
class detached_queue_pair {
 public:
  explicit detached_queue_pair(std::shared_ptr<const verbs_library> library, ibv_qp* queue_pair) noexcept
      : library_(std::move(library)), queue_pair_(queue_pair) {}
  detached_queue_pair(detached_queue_pair&& other) noexcept
      : library_(std::move(other.library_)), queue_pair_(std::exchange(other.queue_pair_, nullptr)) {}
  detached_queue_pair& operator=(detached_queue_pair&&) = delete;
  ~detached_queue_pair() { destroy_any_thread(); }

  void destroy_any_thread() noexcept;

 private:
  std::shared_ptr<const verbs_library> library_;
  ibv_qp* queue_pair_;
};

/// An rdma_cm identifier and its queue pair. Destroys the queue pair first; after that the device touches none of
/// the memory that was posted on it.
class cm_id {
 public:
  /// A new identifier; `context` comes back with its events.
  cm_id(std::shared_ptr<event_channel> channel, void* context);
  /// Takes over the identifier of a connection request.
  cm_id(std::shared_ptr<event_channel> channel, rdma_cm_id* requested, void* context);
  ~cm_id();
  cm_id(const cm_id&) = delete;
  cm_id& operator=(const cm_id&) = delete;

  rdma_cm_id* get() const noexcept { return id_; }
  ibv_qp* queue_pair() const noexcept { return id_->qp; }
  ibv_context* verbs() const noexcept { return id_->verbs; }

  void bind(const sockaddr* address);
  void listen(int backlog);
  void resolve_address(const sockaddr* destination, int timeout_ms);
  void resolve_route(int timeout_ms);

  /// Creates a reliable connected queue pair on one completion queue. The inline limit cannot be asked for, so it is
  /// tried downwards from `limits.inline_bytes`; the limits granted are returned. With `shared` it has no receive queue
  /// of its own, and `queue` is for its sends.
  queue_pair_limits create_queue_pair(std::shared_ptr<protection_domain> domain,
                                      std::shared_ptr<completion_queue> queue, queue_pair_limits limits,
                                      receive_side shared = {});
  /// Lets go of the completion queue and the protection domain as well: librdmacm may close the device behind them as
  /// soon as no identifier needs it.
  void destroy_queue_pair() noexcept;
  /// Gives it away instead. What it stands on stays until `destroy_queue_pair`, or the end of this identifier.
  detached_queue_pair detach_queue_pair() noexcept;
  /// Whether the queue pair was up and has left that state, so that the device takes no more work on it. False as well where
  /// the device does not answer.
  bool has_failed() const noexcept;
  /// Whether a device_event's subject is the queue pair of this identifier, or its completion queue.
  bool stands_on(object_name subject) const noexcept;

  void connect(const rdma_conn_param& parameters);
  void accept(const rdma_conn_param& parameters);
  void reject(const void* private_data, uint8_t bytes) noexcept;
  /// Moves the queue pair to the error state and tells the peer. A connection that is not up is no error here, nor a
  /// second call. Over iWARP it waits for the answer to a request, as does the end of this identifier: ten seconds with software iWARP,
  /// where a peer does not answer. So it may be called by another thread, with nobody else using this object.
  void disconnect() noexcept;
  /// How long a peer waits after a receiver-not-ready answer; rdma_cm leaves the longest time there is.
  void set_min_rnr_timer(uint8_t code) noexcept;

  /// Number of the local port, host byte order.
  uint16_t local_port() const;
  /// The port of the device.
  uint8_t device_port() const noexcept { return id_->port_num; }
  const sockaddr* local_address() const noexcept { return &id_->route.addr.src_addr; }
  const sockaddr* peer_address() const noexcept { return &id_->route.addr.dst_addr; }

 private:
  const verbs_library& library() const noexcept { return *channel_->library(); }

  std::shared_ptr<event_channel> channel_;
  bool disconnected_ = false;
  rdma_cm_id* id_ = nullptr;
  std::shared_ptr<protection_domain> domain_;
  std::shared_ptr<completion_queue> queue_;
  receive_side shared_;
};

}  // namespace verbmq
