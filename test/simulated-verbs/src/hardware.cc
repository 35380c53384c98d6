#include "hardware.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <thread>
#include <utility>

#include "world.h"

namespace simverbs {

namespace {

struct schedule {
  std::condition_variable changed;
  // Equal keys keep their order of insertion.
  std::multimap<int64_t, std::function<void()>> actions;
  pid_t owner = 0;
};

schedule& the_schedule() {
  static auto& made = *new schedule();
  return made;
}

void run() {
  schedule& todo = the_schedule();
  lock_guard lock(the_world().mutex);
  for (;;) {
    if (todo.actions.empty()) {
      todo.changed.wait(lock);
      continue;
    }
    const auto first = todo.actions.begin();
    const int64_t wait_us = first->first - now_us();
    if (wait_us > 0) {
      todo.changed.wait_for(lock, std::chrono::microseconds(wait_us));
      continue;
    }
    const std::function<void()> action = std::move(first->second);
    todo.actions.erase(first);
    action();
    // The application gets a turn between two steps of the hardware.
    lock.unlock();
    lock.lock();
  }
}

void start_thread() {
  // The application's signal handlers belong to its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(run).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void after(int64_t delay_us, std::function<void()> action) {
  schedule& todo = the_schedule();
  todo.actions.emplace(now_us() + delay_us, std::move(action));
  if (todo.owner == 0) {
    todo.owner = getpid();
    start_thread();
  }
  todo.changed.notify_one();
}

}  // namespace simverbs
