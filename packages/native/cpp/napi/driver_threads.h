// Threads for calls of drivers that may wait: seconds for a network interface to let go of packets, or for libraries that are read for the
// first time, minutes for a peer's TCP.
//
// They are not libuv's. Of those there are four in a process, which its files and host names need as well: an application whose
// network is gone must still be able to look for the way around it. And they are no loop's: an environment ends without waiting for
// them, and they bring to an end by themselves what it has left.
#pragma once

#include <uv.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace verbmq {

class driver_threads {
 public:
  /// At most so many calls wait at once; further ones take their turns.
  explicit driver_threads(size_t most);
  ~driver_threads();
  driver_threads(const driver_threads&) = delete;
  driver_threads& operator=(const driver_threads&) = delete;

  void open(uv_loop_t* loop);
  /// Runs `work` on another thread, then `done` on the loop's; or, when the loop has been left by then, `left` behind it on that thread.
  /// It does not hold the loop: whoever waits for the end does.
  void run(std::function<void()> work, std::function<void()> done, std::function<void()> left);
  /// Leaves the loop, which holds nothing of this any more when it calls `closed`. What has not come back by now goes on without it.
  void close(std::function<void()> closed);

 private:
  struct call;
  class queue;
  void take_finished();

  uv_async_t handle_{};
  std::shared_ptr<queue> queue_;
  std::function<void()> closed_;
};

}  // namespace verbmq
