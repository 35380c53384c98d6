// Events behind a file descriptor, as the kernel's channels have them: readable while one waits, one event a read,
// EAGAIN or blocking as the application set the descriptor.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace simverbs {

template <typename event>
class event_pipe {
 public:
  event_pipe() : fd_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}
  ~event_pipe() {
    if (fd_ >= 0) close(fd_);
  }
  event_pipe(const event_pipe&) = delete;
  event_pipe& operator=(const event_pipe&) = delete;

  /// -1 when the process has no descriptor left.
  int fd() const { return fd_; }

  /// Adds an event; the lock is held.
  void push(event what) {
    events_.push_back(std::make_unique<event>(std::move(what)));
    const uint64_t one = 1;
    while (write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  /// Takes back the events that `gone` chooses; each leaves an empty place, because another thread may be about to
  /// read its count from the descriptor.
  template <typename predicate>
  void remove(predicate gone) {
    for (auto& place : events_) {
      if (place && gone(*place)) place.reset();
    }
  }

  /// Reads one event, waiting when the descriptor is a blocking one. Called without the lock, returns with it.
  /// Nothing, with errno, when none can be had.
  std::unique_ptr<event> read_one(std::unique_lock<std::mutex>& lock) {
    for (;;) {
      uint64_t count;
      if (read(fd_, &count, sizeof count) != sizeof count) return nullptr;
      lock.lock();
      if (!events_.empty()) {
        std::unique_ptr<event> first = std::move(events_.front());
        events_.pop_front();
        if (first) return first;
      }
      lock.unlock();
    }
  }

 private:
  int fd_;
  std::deque<std::unique_ptr<event>> events_;  // an empty place was removed
};

}  // namespace simverbs
