// Counts what the addon allocates. Loaded before everything else (LD_PRELOAD) it stands in front of the allocators and looks
// at who calls. Where the addon's code lies, and what was counted, stand in the file that VERBMQ_ALLOCATIONS names, which is
// mapped: the program writes and reads it as a file. What a library allocates on behalf of the addon is not counted.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

struct shared_counts {
  std::atomic<uint64_t> allocations;
  std::atomic<uint64_t> code_begin;
  std::atomic<uint64_t> code_end;
};

shared_counts* counts = nullptr;

__attribute__((constructor)) void find_counts() {
  const char* path = std::getenv("VERBMQ_ALLOCATIONS");
  const int file = path == nullptr ? -1 : open(path, O_RDWR);
  if (file < 0) return;
  void* mapped = mmap(nullptr, sizeof(shared_counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) counts = static_cast<shared_counts*>(mapped);
}

void count_call_of(const void* caller) {
  if (counts == nullptr) return;
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (at >= counts->code_begin && at < counts->code_end) ++counts->allocations;
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#define COUNT_CALL() count_call_of(__builtin_return_address(0))

extern "C" {

void* malloc(size_t bytes) {
  COUNT_CALL();
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  COUNT_CALL();
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) {
  COUNT_CALL();
  return __libc_realloc(memory, bytes);
}

}  // extern "C"

void* operator new(size_t bytes) {
  COUNT_CALL();
  return or_throw(__libc_malloc(bytes));
}

void* operator new[](size_t bytes) {
  COUNT_CALL();
  return or_throw(__libc_malloc(bytes));
}

void* operator new(size_t bytes, std::align_val_t alignment) {
  COUNT_CALL();
  return or_throw(__libc_memalign(static_cast<size_t>(alignment), bytes));
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
