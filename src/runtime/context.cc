#include "headwise/context.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/check.h"
#include "base/huge_pages.h"
#include "base/thread_count.h"
#include "headwise/error.h"
#include "runtime/context_state.h"

namespace headwise {

namespace {

// CPUs this process may run on, which in a container is often fewer than the machine has.
int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : static_cast<int>(count);
}

const kernels::Kernels& checked_target(std::string_view function, std::string_view argument,
                                       std::string_view name) {
  if (const kernels::Kernels* found = kernels::find_target(name)) return *found;
  std::string known;
  for (const kernels::Kernels* target : kernels::targets()) {
    known += (known.empty() ? "" : ", ") + std::string(target->target);
  }
  base::fail(function, argument, "one of " + known, "\"" + std::string(name) + "\"");
}

struct TargetChoice {
  const kernels::Kernels& kernels;
  std::string_view reason;
};

TargetChoice default_choice(std::string_view function) {
  const char* forced = std::getenv("HEADWISE_TARGET");
  if (forced == nullptr || *forced == '\0') {
    return {**kernels::targets().begin(), "the best that this CPU has"};
  }
  return {checked_target(function, "HEADWISE_TARGET", forced), "HEADWISE_TARGET names it"};
}

std::unique_ptr<runtime::ContextState> make_state(int threads) {
  const TargetChoice choice = default_choice("Context");
  return std::make_unique<runtime::ContextState>(base::checked_threads("Context", threads),
                                                 choice.kernels, choice.reason);
}

}  // namespace

std::vector<std::string_view> available_targets() {
  std::vector<std::string_view> names;
  for (const kernels::Kernels* target : kernels::targets()) names.push_back(target->target);
  return names;
}
std::string_view default_target() { return default_choice("default_target").kernels.target; }

std::string CallReport::to_string() const {
  std::string text = std::string(target) + ": " + std::string(target_reason) + "; register tile " +
                     std::to_string(tile_rows) + "x" + std::to_string(tile_columns) + "; " +
                     std::to_string(threads) + (threads == 1 ? " thread: " : " threads: ") +
                     std::string(threads_reason);
  if (!attention.empty()) {
    text += "; attention " + std::string(attention) + ": " + std::string(attention_reason);
  }
  return text;
}

Context::Context() : Context(std::min(available_cpus(), base::kMaxThreads)) {}
Context::Context(int threads) : state_(make_state(threads)) {}
Context::Context(int threads, std::string_view target)
    : state_(std::make_unique<runtime::ContextState>(base::checked_threads("Context", threads),
                                                     checked_target("Context", "target", target),
                                                     "the context asks for it")) {}
CallReport Context::last_call() const noexcept { return state_ ? state_->report : CallReport(); }
std::string_view Context::target() const noexcept {
  return state_ ? state_->kernels.target : std::string_view();
}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
int Context::threads() const noexcept { return state_ ? state_->pool.threads() : 0; }
std::size_t Context::scratch_bytes() const noexcept { return state_ ? state_->scratch_bytes : 0; }
std::size_t Context::recycled_bytes() const noexcept {
  return state_ ? state_->recycled->bytes() : 0;
}

namespace runtime {

namespace {

constexpr std::size_t kAlignment = 64;
// Waking threads costs some 10 µs; a call below this size is over by then.
constexpr double kFlopsWorthThreads = 2e6;

std::byte* allocate(std::size_t bytes, detail::RecycledMemory& recycled) {
  const auto attempt = [&] {
    return ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow);
  };
  auto* memory = static_cast<std::byte*>(attempt());
  if (memory == nullptr && recycled.bytes() > 0) {
    recycled.clear();
    memory = static_cast<std::byte*>(attempt());
  }
  if (memory == nullptr) throw OutOfMemory(bytes);
  base::prefer_huge_pages(memory, bytes);
  return memory;
}

void release(std::byte* memory) { ::operator delete (memory, std::align_val_t{kAlignment}); }

}  // namespace

std::size_t ScratchPlan::add_bytes(std::int64_t count, std::size_t element_bytes) {
  const std::size_t offset = bytes_;
  std::size_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(static_cast<std::size_t>(count), element_bytes, &bytes) ||
      __builtin_add_overflow(bytes, bytes_ + kAlignment, &bytes)) {
    throw OutOfMemory(SIZE_MAX);
  }
  bytes_ = bytes / kAlignment * kAlignment;
  return offset;
}

Lease::Lease(std::string_view function, Context* context) {
  if (context == nullptr) {
    own_.emplace();
    context = &*own_;
  }
  state_ = context->state();
  if (state_ == nullptr) {
    base::fail(function, "options.context", "a context", "one that was moved from");
  }
  if (state_->leased.exchange(true, std::memory_order_acquire)) {
    base::fail(function, "options.context", "a context that no other call is using",
               "one that is in use");
  }
}

Lease::~Lease() { state_->leased.store(false, std::memory_order_release); }

void Lease::reserve(const ScratchPlan& plan, double flops) {
  if (plan.bytes() > state_->scratch_bytes) {
    state_->scratch.reset();  // first: old and new need not live side by side
    state_->scratch_bytes = 0;
    state_->scratch = {allocate(plan.bytes(), *state_->recycled), release};
    state_->scratch_bytes = plan.bytes();
  }
  threaded_ = state_->pool.threads() > 1 && flops >= kFlopsWorthThreads;
  const kernels::GemmKernels& gemm = state_->kernels.gemm;
  state_->report = {
      .target = state_->kernels.target,
      .target_reason = state_->target_reason,
      .attention = {},
      .attention_reason = {},
      .threads_reason = threaded_ ? "as many as the context has and the work can be shared by"
                        : state_->pool.threads() == 1 ? "the context has no more"
                                                      : "too little work to share",
      .threads = 1,  // as tasks come, see parallel_for
      .tile_rows = static_cast<int>(gemm.tile_rows),
      .tile_columns = static_cast<int>(gemm.tile_columns)};
  if (threaded_) state_->pool.start();  // they wake while the caller prepares the first round
}

}  // namespace runtime
}  // namespace headwise
