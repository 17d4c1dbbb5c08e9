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

RecycledMemory::Block RecycledMemory::remove(int index) noexcept {
  const Block block = blocks_[index];
  std::move(blocks_ + index + 1, blocks_ + count_, blocks_ + index);
  --count_;
  held_ -= block.bytes;
  return block;
}

void* RecycledMemory::take(std::size_t bytes) noexcept {
  if (bytes < kSmallest || in_use_.test_and_set(std::memory_order_acquire)) return nullptr;
  void* found = nullptr;
  for (int i = count_ - 1; i >= 0 && found == nullptr; --i) {  // the newest: perhaps still cached
    if (blocks_[i].bytes == bytes) found = remove(i).memory;
  }
  in_use_.clear(std::memory_order_release);
  return found;
}

bool RecycledMemory::give(void* memory, std::size_t bytes) noexcept {
  if (bytes < kSmallest || bytes > kMost || closed_) return false;
  if (in_use_.test_and_set(std::memory_order_acquire)) return false;
  Block gone[kMostBlocks];
  int gone_count = 0;
  while (count_ == kMostBlocks || held_ + bytes > kMost) gone[gone_count++] = remove(0);
  blocks_[count_++] = {memory, bytes};
  held_ += bytes;
  in_use_.clear(std::memory_order_release);
  for (int i = 0; i < gone_count; ++i) release(gone[i].memory);
  return true;
}

void RecycledMemory::clear() noexcept {
  if (in_use_.test_and_set(std::memory_order_acquire)) return;
  Block gone[kMostBlocks];
  int gone_count = 0;
  while (count_ > 0) gone[gone_count++] = remove(count_ - 1);
  in_use_.clear(std::memory_order_release);
  for (int i = 0; i < gone_count; ++i) release(gone[i].memory);
}

void RecycledMemory::close() noexcept {
  closed_ = true;
  clear();
}

void AlignedDelete::operator()(void* memory) const noexcept {
  if (recycled == nullptr || !recycled->give(memory, bytes)) release(memory);
}

}  // namespace headwise::detail
