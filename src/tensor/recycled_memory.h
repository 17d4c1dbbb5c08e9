// Memory of tensors that are gone, kept for the next ones of the same size. A training step makes and
// drops the same tensors every time; fetched from the system anew, each page of them costs a fault
// and is cleared once more, up to a fifth of the step.
#pragma once

#include <atomic>
#include <cstddef>

namespace headwise::detail {

// Tensors may be dropped on any thread. Whoever finds the store in use does without it and never
// waits: a process forked meanwhile would find it in use for ever, and half changed.
class RecycledMemory {
 public:
  static constexpr std::size_t kSmallest = std::size_t{64} << 10U;  // malloc is good at the others

  RecycledMemory() = default;
  ~RecycledMemory() { clear(); }
  RecycledMemory(const RecycledMemory&) = delete;
  RecycledMemory& operator=(const RecycledMemory&) = delete;

  // Null: none of this size.
  void* take(std::size_t bytes) noexcept;
  // False: not wanted.
  bool give(void* memory, std::size_t bytes) noexcept;
  // Gives all of it to the system.
  void clear() noexcept;
  // The same, and wants no more.
  void close() noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kMost = std::size_t{256} << 20U;
  static constexpr int kMostBlocks = 32;
  struct Block {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };
  Block remove(int index) noexcept;

  std::atomic_flag in_use_;
  std::atomic<bool> closed_{false};
  std::atomic<std::size_t> held_{0};
  Block blocks_[kMostBlocks];  // the oldest first
  int count_ = 0;
};

}  // namespace headwise::detail
