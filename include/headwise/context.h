// Threads and scratch memory for calls, brought by the caller; the library has no globals.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

namespace runtime {
class ContextState;
}

// What a CPU's kernels were compiled for: "avx512", "avx2", "sse4", "neon", or "reference", the
// readable definition of all of them. All but sse4, whose CPUs cannot fuse a multiply-add, give the
// same bits. Those that this CPU can run, the best first:
std::vector<std::string_view> available_targets();
// The first of them, or what the environment variable HEADWISE_TARGET names. Throws ArgumentError
// if that is none of them.
std::string_view default_target();

// How a call was carried out. The words are for people.
struct CallReport {
  std::string_view target;         // of the kernels
  std::string_view target_reason;  // the best of this CPU, or asked for
  std::string_view attention;      // how K and V were read; empty: no attention in the call
  std::string_view attention_reason;
  std::string_view threads_reason;
  int threads = 0;    // that shared the work
  int tile_rows = 0;  // of the register tile
  int tile_columns = 0;

  [[nodiscard]] std::string to_string() const;
};

// Give the same Context to call after call: its threads stay alive, its scratch is reused, and so is
// the memory of results of 64 KB and more that were dropped, for the next ones of their sizes. One
// call at a time may use a Context; a second one that arrives meanwhile gets an ArgumentError. Calls
// without a Context make one for themselves. Results do not depend on the thread count, bit for bit.
class Context {
 public:
  Context();                      // as many threads as the process may use CPUs
  explicit Context(int threads);  // 1 … 1024
  Context(int threads, std::string_view target);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] int threads() const noexcept;
  [[nodiscard]] std::string_view target() const noexcept;    // empty after a move
  [[nodiscard]] std::size_t scratch_bytes() const noexcept;  // held for the next call
  // Of results that are gone, held for the next ones of their sizes: at most 256 MB.
  [[nodiscard]] std::size_t recycled_bytes() const noexcept;

  // Of the last call; all empty before the first.
  [[nodiscard]] CallReport last_call() const noexcept;

  // For the library. Null after a move.
  [[nodiscard]] runtime::ContextState* state() noexcept { return state_.get(); }

 private:
  std::unique_ptr<runtime::ContextState> state_;
};

}  // namespace headwise
