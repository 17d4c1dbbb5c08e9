#include "memory/allocation_counter.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace headwise::test_support {
namespace {

std::atomic<std::int64_t> live{0};
std::atomic<std::int64_t> peak{0};
std::atomic<std::int64_t> count{0};
std::atomic<std::int64_t> until_failure{0};  // 0: none is to fail
std::atomic<bool> has_fired{false};

bool refuse_this_one() {
  if (until_failure.load() <= 0 || until_failure.fetch_sub(1) != 1) return false;
  has_fired = true;
  return true;
}

// The system's own idea of a block's size: the same when it is made and when it is freed.
void* counted(void* memory) {
  if (memory == nullptr) return nullptr;
  ++count;
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t now = live.fetch_add(bytes) + bytes;
  std::int64_t most = peak.load();
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return memory;
}

}  // namespace

void* allocate(std::size_t bytes) noexcept {
  return refuse_this_one() ? nullptr : counted(std::malloc(bytes == 0 ? 1 : bytes));
}

void* allocate(std::size_t bytes, std::align_val_t alignment) noexcept {
  if (refuse_this_one()) return nullptr;
  const auto align = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (bytes + align - 1) / align * align;  // aligned_alloc asks for it
  if (rounded < bytes) return nullptr;
  return counted(std::aligned_alloc(align, rounded == 0 ? align : rounded));
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  live -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

std::int64_t live_bytes() { return live; }
std::int64_t peak_bytes() { return peak; }
void reset_peak() { peak = live.load(); }
std::int64_t allocation_count() { return count; }

FailNthAllocation::FailNthAllocation(std::int64_t n) {
  has_fired = false;
  until_failure = n;
}
FailNthAllocation::~FailNthAllocation() { until_failure = 0; }
bool FailNthAllocation::fired() { return has_fired; }

}  // namespace headwise::test_support

namespace support = headwise::test_support;

void* operator new(std::size_t n) { return support::or_throw(support::allocate(n)); }
void* operator new[](std::size_t n) { return support::or_throw(support::allocate(n)); }
void* operator new(std::size_t n, std::align_val_t a) {
  return support::or_throw(support::allocate(n, a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return support::or_throw(support::allocate(n, a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return support::allocate(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return support::allocate(n); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return support::allocate(n, a);
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return support::allocate(n, a);
}

void operator delete(void* p) noexcept { support::release(p); }
void operator delete[](void* p) noexcept { support::release(p); }
void operator delete(void* p, std::size_t) noexcept { support::release(p); }
void operator delete[](void* p, std::size_t) noexcept { support::release(p); }
void operator delete(void* p, std::align_val_t) noexcept { support::release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { support::release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { support::release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { support::release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { support::release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { support::release(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  support::release(p);
}
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  support::release(p);
}
