// Asks for huge pages where memory is large. A matrix read by columns of tiles touches a page per
// row; with 4 KB pages the translations alone cost some percent of the time in a virtual machine.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace headwise::base {

// A hint: where the system does not follow it, nothing is lost. The memory is not touched.
inline void prefer_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20U;
#ifdef MADV_HUGEPAGE
  const std::size_t before = (kPage - reinterpret_cast<std::uintptr_t>(memory) % kPage) % kPage;
  if (bytes < before + kPage) return;
  const std::size_t whole = (bytes - before) / kPage * kPage;
  (void)madvise(static_cast<std::byte*>(memory) + before, whole, MADV_HUGEPAGE);
#endif
}

}  // namespace headwise::base
