#include "napi/driver_threads.h"

#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace verbmq {

struct driver_threads::call {
  std::function<void()> work;
  std::function<void()> done;
  std::function<void()> left;
};

/// What the loop and the threads share, and the threads alone when the loop has been left.
class driver_threads::queue : public std::enable_shared_from_this<queue> {
 public:
  explicit queue(size_t most) : most_(most) {}

  void open(uv_async_t* waker) { waker_ = waker; }

  void add(call added) {
    {
      const std::lock_guard<std::mutex> locked(mutex_);
      waiting_.push_back(std::move(added));
      if (running_ == most_) return;
      ++running_;
    }
    try {
      std::thread([self = shared_from_this()] { self->run_any_thread(); }).detach();
    } catch (const std::system_error&) {
      // There are no more threads. It has to be done all the same: by those that there are, or here, and the loop waits for it.
      if (!others_go_on()) run_any_thread();
    }
  }

  std::vector<call> take_finished() {
    const std::lock_guard<std::mutex> locked(mutex_);
    return std::exchange(finished_, {});
  }

  void leave() {
    std::vector<call> finished;
    {
      const std::lock_guard<std::mutex> locked(mutex_);
      waker_ = nullptr;
      finished.swap(finished_);
    }
    for (call& each : finished) add({[] {}, {}, std::move(each.left)});
  }

 private:
  void run_any_thread() {
    while (auto next = take_any_thread()) {
      next->work();
      if (!give_back_any_thread(*next)) next->left();
    }
  }

  bool others_go_on() {
    const std::lock_guard<std::mutex> locked(mutex_);
    if (running_ == 1) return false;
    --running_;
    return true;
  }

  std::unique_ptr<call> take_any_thread() {
    const std::lock_guard<std::mutex> locked(mutex_);
    if (waiting_.empty()) {
      --running_;
      return nullptr;
    }
    auto taken = std::make_unique<call>(std::move(waiting_.front()));
    waiting_.pop_front();
    return taken;
  }

  bool give_back_any_thread(call& finished) {
    const std::lock_guard<std::mutex> locked(mutex_);
    if (waker_ == nullptr) return false;
    finished_.push_back(std::move(finished));
    uv_async_send(waker_);
    return true;
  }

  const size_t most_;
  std::mutex mutex_;
  // Guarded by it.
  uv_async_t* waker_ = nullptr;  // of the loop, until that is left
  std::deque<call> waiting_;
  std::vector<call> finished_;
  size_t running_ = 0;
};

driver_threads::driver_threads(size_t most) : queue_(std::make_shared<queue>(most)) {}

driver_threads::~driver_threads() = default;

void driver_threads::open(uv_loop_t* loop) {
  uv_async_init(loop, &handle_, [](uv_async_t* handle) { static_cast<driver_threads*>(handle->data)->take_finished(); });
  handle_.data = this;
  uv_unref(reinterpret_cast<uv_handle_t*>(&handle_));
  queue_->open(&handle_);
}

void driver_threads::run(std::function<void()> work, std::function<void()> done, std::function<void()> left) {
  queue_->add({std::move(work), std::move(done), std::move(left)});
}

void driver_threads::take_finished() {
  for (call& each : queue_->take_finished()) {
    // One of them may be what leaves the loop.
    if (closed_) queue_->add({[] {}, {}, std::move(each.left)});
    else each.done();
  }
}

void driver_threads::close(std::function<void()> closed) {
  closed_ = std::move(closed);
  queue_->leave();
  uv_close(reinterpret_cast<uv_handle_t*>(&handle_), [](uv_handle_t* closing) {
    // It may be the end of this object.
    const auto closed = std::move(static_cast<driver_threads*>(closing->data)->closed_);
    closed();
  });
}

}  // namespace verbmq
