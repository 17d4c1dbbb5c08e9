// What is behind a Context, and the lease by which one call uses it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "headwise/context.h"
#include "headwise/tensor.h"
#include "kernels/kernels.h"
#include "runtime/thread_pool.h"
#include "tensor/recycled_memory.h"

namespace headwise::runtime {

class ContextState {
 public:
  ContextState(int threads, const kernels::Kernels& kernels_, std::string_view reason)
      : pool(threads), kernels(kernels_), target_reason(reason) {}
  ~ContextState() { recycled->close(); }
  ContextState(const ContextState&) = delete;
  ContextState& operator=(const ContextState&) = delete;

  ThreadPool pool;
  const kernels::Kernels& kernels;  // of the CPU target
  std::string_view target_reason;
  CallReport report;
  std::unique_ptr<std::byte, void (*)(std::byte*)> scratch{nullptr, [](std::byte*) {}};
  std::size_t scratch_bytes = 0;
  // Shared with the tensors that were made of it, which may outlive the context.
  std::shared_ptr<detail::RecycledMemory> recycled = std::make_shared<detail::RecycledMemory>();
  std::atomic<bool> leased{false};
};

// Adds up what a call needs, so that it can be reserved at once; nothing allocates after that.
class ScratchPlan {
 public:
  // Bytes from the start of the scratch to room for `count` numbers on a cache line of their own.
  std::size_t add_bytes(std::int64_t count, std::size_t element_bytes);
  template <typename T>
  std::size_t add(std::int64_t count) {
    return add_bytes(count, sizeof(T));
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// Exclusive use of the caller's Context, or of one made for this call, until it goes out of scope.
class Lease {
 public:
  // Throws ArgumentError on behalf of `function` if another call is using the context.
  Lease(std::string_view function, Context* context);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  [[nodiscard]] int threads() const { return state_->pool.threads(); }
  // 1 for calls too small to share; known after reserve().
  [[nodiscard]] int threads_in_use() const { return threaded_ ? threads() : 1; }
  [[nodiscard]] const kernels::Kernels& kernels() const { return state_->kernels; }

  // All the memory and threads of the call; throws OutOfMemory. `flops` decides whether threads
  // are worth waking: the only use of the work's size, and without influence on results.
  void reserve(const ScratchPlan& plan, double flops);
  // For results: zeros, in memory of earlier ones if the context is the caller's.
  [[nodiscard]] Tensor zeros(const Shape& shape) const {
    return {shape, own_ ? nullptr : state_->recycled};
  }
  // For Context::last_call().
  void report_attention(std::string_view kernel, std::string_view reason) const {
    state_->report.attention = kernel;
    state_->report.attention_reason = reason;
  }
  template <typename T>
  [[nodiscard]] T* scratch(std::size_t offset) const {
    return reinterpret_cast<T*>(state_->scratch.get() + offset);
  }

  // task(index, worker) for 0 … count−1, on all threads; taken in ascending order, see ThreadPool.
  template <typename Task>
  void parallel_for(std::int64_t count, Task&& task) const noexcept {
    if (!threaded_) {
      for (std::int64_t i = 0; i < count; ++i) task(i, 0);
      return;
    }
    const auto sharing = static_cast<int>(count < threads() ? count : threads());
    if (state_->report.threads < sharing) state_->report.threads = sharing;
    state_->pool.run(count, {&task, [](void* object, std::int64_t index, int worker) {
                               (*static_cast<std::remove_reference_t<Task>*>(object))(index,
                                                                                      worker);
                             }});
  }

 private:
  std::optional<Context> own_;
  ContextState* state_;
  bool threaded_ = false;
};

}  // namespace headwise::runtime
