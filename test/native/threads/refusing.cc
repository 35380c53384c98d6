// A system that has no more threads. Loaded before everything else (LD_PRELOAD) it refuses every new one while VERBMQ_NO_THREADS is in
// the environment, which a program sets when all that it needs for itself are there, and says so.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) noexcept {
  static constexpr char said[] = "a thread was refused\n";
  if (std::getenv("VERBMQ_NO_THREADS") != nullptr) {
    if (write(STDERR_FILENO, said, sizeof said - 1) < 0) std::abort();
    return EAGAIN;
  }
  void* found = dlsym(RTLD_NEXT, "pthread_create");
  decltype(&pthread_create) next = nullptr;
  std::memcpy(&next, &found, sizeof found);
  return next(thread, attributes, start, argument);
}
