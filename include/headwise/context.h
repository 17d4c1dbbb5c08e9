// Threads and scratch memory for calls, brought by the caller; the library has no globals.
#pragma once

#include <cstddef>
#include <memory>

namespace headwise {

namespace runtime {
class ContextState;
}

// Give the same Context to call after call: its threads stay alive and its scratch is reused, so a
// call that fits needs no allocation for its inner work. One call at a time may use a Context; a
// second one that arrives meanwhile gets an ArgumentError. Calls without a Context make one for
// themselves. Results do not depend on the thread count, bit for bit.
class Context {
 public:
  Context();                      // as many threads as the process may use CPUs
  explicit Context(int threads);  // 1 … 1024
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] int threads() const noexcept;
  [[nodiscard]] std::size_t scratch_bytes() const noexcept;  // held for the next call

  // For the library. Null after a move.
  [[nodiscard]] runtime::ContextState* state() noexcept { return state_.get(); }

 private:
  std::unique_ptr<runtime::ContextState> state_;
};

}  // namespace headwise
