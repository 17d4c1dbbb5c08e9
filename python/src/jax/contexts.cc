#include "contexts.h"

#include <array>
#include <atomic>

namespace headwise::jax {

namespace {

std::atomic<int> asked_threads = 0;

// Without a lock, which a fork could leave closed for ever; and never destroyed, since XLA's threads
// may outlive everything else.
std::array<std::atomic<KeptContext*>, 64> idle_contexts;

std::unique_ptr<KeptContext> take_idle() {
  for (std::atomic<KeptContext*>& place : idle_contexts) {
    if (place.load(std::memory_order_relaxed) == nullptr) continue;
    if (KeptContext* kept = place.exchange(nullptr)) return std::unique_ptr<KeptContext>(kept);
  }
  return nullptr;
}

}  // namespace

void set_threads(int threads) {
  if (threads != 0) (void)Context(threads);  // throws for a number that cannot be
  asked_threads = threads;
}

int threads() { return asked_threads; }

BorrowedContext::BorrowedContext() : kept_(take_idle()) {
  const int asked = asked_threads;
  if (kept_ != nullptr && kept_->asked == asked) return;
  kept_.reset(new KeptContext{asked == 0 ? Context() : Context(asked), asked});
}

BorrowedContext::~BorrowedContext() {
  for (std::atomic<KeptContext*>& place : idle_contexts) {
    KeptContext* nothing = nullptr;
    if (place.compare_exchange_strong(nothing, kept_.get())) {
      (void)kept_.release();
      return;
    }
  }
}

}  // namespace headwise::jax
