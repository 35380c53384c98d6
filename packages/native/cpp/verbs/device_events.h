// What a device reports by itself: its end, its ports, queues that have failed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "verbs/device_context.h"
#include "verbs/object_name.h"

namespace verbmq {

/// One report, copied and already acknowledged: destroying a queue waits until its reports are.
struct device_event {
  ibv_event_type type;
  int port;             // the port that it is about, or 0
  object_name subject;  // the queue that it is about, or nullptr

  bool operator==(const device_event& other) const noexcept {
    return type == other.type && port == other.port && subject == other.subject;
  }
};

/// A stable lower-case name for a kind of report, `event-N` for a value newer than this code.
std::string device_event_name(ibv_event_type type);

/// The reports of one device, as one of its users gets them. All users of a process share one descriptor, because
/// librdmacm opens each device once; so whoever reads it passes what it finds to all of them.
class device_events {
 public:
  explicit device_events(const std::shared_ptr<device_context>& context);
  ~device_events();
  device_events(const device_events&) = delete;
  device_events& operator=(const device_events&) = delete;

  /// Readable when take() may have something.
  int fd() const noexcept { return poll_fd_; }
  /// Everything reported since the last call; it never blocks. A device whose reports cannot be read any more is
  /// reported as IBV_EVENT_DEVICE_FATAL.
  std::vector<device_event> take();

 private:
  class source;

  std::shared_ptr<source> source_;
  int wake_fd_ = -1;  // counts what other users have passed on
  int poll_fd_ = -1;  // readable when that is, or the device's own descriptor
  std::vector<device_event> waiting_;  // guarded by the source, since its other users write it
};

}  // namespace verbmq
