#include "engine/huge_pages.h"

#include <sys/mman.h>

#include <cstdio>

namespace verbmq {

namespace {

// 0 where the kernel was built without them.
size_t huge_page_bytes() noexcept {
  std::FILE* file = std::fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "re");
  if (file == nullptr) return 0;
  size_t bytes = 0;
  if (std::fscanf(file, "%zu", &bytes) != 1) bytes = 0;
  std::fclose(file);
  return bytes;
}

}  // namespace

void prefer_huge_pages(uint8_t* base, size_t bytes) noexcept {
  static const size_t huge = huge_page_bytes();
  if (huge == 0 || bytes < huge) return;
  const auto address = reinterpret_cast<uintptr_t>(base);
  const size_t skipped = (huge - address % huge) % huge;
  if (bytes - skipped < huge) return;
  madvise(base + skipped, (bytes - skipped) / huge * huge, MADV_HUGEPAGE);
}

}  // namespace verbmq
