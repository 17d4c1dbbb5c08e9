// Asks for huge pages where memory is large. A matrix read by columns of tiles touches a page per
// row; with 4 KB pages the translations alone cost up to a tenth of the time, more inside a virtual
// machine.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace headwise::base {

// A hint: where the system does not follow it, nothing is lost. The memory is not touched.
inline void prefer_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20U;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / kPage * kPage;
#ifdef MADV_HUGEPAGE
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace headwise::base
