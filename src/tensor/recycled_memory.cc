#include "tensor/recycled_memory.h"

#include <algorithm>
#include <new>

#include "headwise/tensor.h"

namespace headwise::detail {

namespace {

void release(void* memory) noexcept {
  ::operator delete (memory, std::align_val_t{kTensorAlignment});
}

}  // namespace

RecycledMemory::~RecycledMemory() {
  for (int i = 0; i < count_; ++i) release(blocks_[i].memory);
}

void RecycledMemory::remove(int index) noexcept {
  held_ -= blocks_[index].bytes;
  std::move(blocks_ + index + 1, blocks_ + count_, blocks_ + index);
  --count_;
}

void* RecycledMemory::take(std::size_t bytes) noexcept {
  if (bytes < kSmallest || in_use_.test_and_set(std::memory_order_acquire)) return nullptr;
  void* found = nullptr;
  for (int i = count_ - 1; i >= 0 && found == nullptr; --i) {  // the newest: perhaps still cached
    if (blocks_[i].bytes != bytes) continue;
    found = blocks_[i].memory;
    remove(i);
  }
  in_use_.clear(std::memory_order_release);
  return found;
}

bool RecycledMemory::give(void* memory, std::size_t bytes) noexcept {
  if (bytes < kSmallest || bytes > kMost) return false;
  if (in_use_.test_and_set(std::memory_order_acquire)) return false;
  while (count_ == kMostBlocks || held_ + bytes > kMost) {
    void* oldest = blocks_[0].memory;
    remove(0);
    release(oldest);
  }
  blocks_[count_++] = {memory, bytes};
  held_ += bytes;
  in_use_.clear(std::memory_order_release);
  return true;
}

void AlignedDelete::operator()(void* memory) const noexcept {
  if (recycled == nullptr || !recycled->give(memory, bytes)) release(memory);
}

}  // namespace headwise::detail
