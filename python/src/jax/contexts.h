// What a handler needs around its call: XLA calls handlers on threads of its own, several at a time.
#pragma once

#include <cfenv>
#include <memory>

#include "headwise/context.h"

namespace headwise::jax {

// For the calls that begin from now on: 1 … 1024, or 0 for as many as the process may use CPUs.
void set_threads(int threads);
int threads();

struct KeptContext {
  Context context;
  int asked;  // threads, as set_threads() had it
};

// A context for the time of one call. There are as many as calls have run at the same time: one for
// each of XLA's threads would hold far more scratch and threads than ever work.
class BorrowedContext {
 public:
  BorrowedContext();
  ~BorrowedContext();
  BorrowedContext(const BorrowedContext&) = delete;
  BorrowedContext& operator=(const BorrowedContext&) = delete;
  [[nodiscard]] Context* get() const { return &kept_->context; }

 private:
  std::unique_ptr<KeptContext> kept_;
};

// Rounding and denormal numbers as everywhere else, whatever XLA has set for its threads.
class DefaultFloats {
 public:
  DefaultFloats() {
    (void)std::fegetenv(&before_);
    (void)std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { (void)std::fesetenv(&before_); }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  std::fenv_t before_{};
};

}  // namespace headwise::jax
