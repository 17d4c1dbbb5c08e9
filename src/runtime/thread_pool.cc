#include "runtime/thread_pool.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace headwise::runtime {

namespace {

// The gate, see Team: from the lowest bit, how many workers are inside, four flags, a version.
constexpr std::uint64_t kInside = 0xFFFF;
constexpr std::uint64_t kOpen = 1U << 16;     // a round that workers may still enter
constexpr std::uint64_t kStop = 1U << 17;     // workers shall end
constexpr std::uint64_t kAsleep = 1U << 18;   // a worker sleeps, or is about to
constexpr std::uint64_t kWaiting = 1U << 19;  // the caller sleeps until nobody is inside
constexpr std::uint64_t kVersion = 1U << 20;  // 44 bits; if they ever wrap, a worker misses a round

constexpr std::size_t kCacheLine = 64;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` does nothing on most cores
#endif
}

// Waiting without sleeping: pauses at first, then yields, since with more threads than cores the
// one waited for may need this core; and not for long, since a serial stretch may follow. Calls of
// tens of microseconds come one after the other, so workers wait like this behind a call, too.
class Spin {
 public:
  // False when it is time to sleep. That is also after a yield that took long: the core is wanted,
  // and the scheduler counts yields against us.
  bool once() {
    if (++turns_ <= kPauses) {
      pause();
      return true;
    }
    if (turns_ == kPauses + 1) end_ = Clock::now() + kYielding;
    std::this_thread::yield();
    return Clock::now() < end_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kPauses = 100;  // 1 … 5 µs, as processors differ
  // A few times what it costs to wake a sleeping thread.
  static constexpr std::chrono::microseconds kYielding{100};
  int turns_ = 0;
  Clock::time_point end_;
};

}  // namespace

// Everything that the workers share. One run() is one round: the caller opens the gate, takes tasks
// together with the workers that enter, closes the gate and waits until nobody is inside.
//
// Whether the gate is open and how many are inside is one atomic word, so a worker enters an open
// gate and is counted in one step, or not at all. While it is inside, `task`, `count` and `next`
// are those of the round that it entered: the caller changes them only when the gate is closed and
// the count is 0. A late worker's exchange fails at a closed gate, and at that of a newer round it
// fails or makes it a worker of that round: nothing of the old one was kept.
//
// Nobody misses a wake-up, for the same reason: kAsleep is set in the word that tells of news, so
// either the announcement finds the flag or the worker finds the announcement.
struct ThreadPool::Team {
  explicit Team(int threads) { workers.reserve(static_cast<std::size_t>(threads - 1)); }

  alignas(kCacheLine) std::atomic<std::uint64_t> gate{0};
  alignas(kCacheLine) std::atomic<std::int64_t> next{0};
  alignas(kCacheLine) TaskRef task;
  std::int64_t count = 0;
  std::mutex mutex;  // only for sleeping; the gate is what counts
  std::condition_variable wake;
  std::condition_variable done;
  std::vector<std::thread> workers;
  pid_t process = getpid();

  // ---- the caller's side; nobody is inside ----

  // Replaces the gate by one with these flags and wakes who sleeps.
  void announce(std::uint64_t flags) {
    const std::uint64_t version = gate.load() / kVersion + 1;
    if ((gate.exchange(version * kVersion | flags) & kAsleep) == 0) return;
    { const std::scoped_lock lock(mutex); }  // who set the flag waits by the time we get this
    wake.notify_all();
  }

  // Workers that have not come by now have nothing to do here.
  void close() {
    std::uint64_t now = gate.fetch_and(~kOpen);
    for (Spin spin; (now & kInside) != 0; now = gate.load()) {
      if (spin.once()) continue;
      std::unique_lock lock(mutex);
      gate.fetch_or(kWaiting);
      done.wait(lock, [&] { return (gate.load() & kInside) == 0; });
    }
  }

  // ---- both sides ----

  void take_tasks(int worker) {
    const TaskRef mine = task;
    const std::int64_t end = count;
    const auto take = [&] { return next.fetch_add(1, std::memory_order_relaxed); };
    for (std::int64_t i = take(); i < end; i = take()) mine.call(mine.object, i, worker);
  }

  // ---- the workers' side ----

  void work(int worker) {
    for (std::uint64_t seen = 0;;) {
      std::uint64_t now = await_news(seen);
      if ((now & kStop) != 0) return;
      if ((now & kOpen) != 0) {
        if (!gate.compare_exchange_weak(now, now + 1)) continue;  // changed meanwhile: look again
        take_tasks(worker);
        leave();
      }
      seen = now / kVersion;
    }
  }

  std::uint64_t await_news(std::uint64_t seen) {
    std::uint64_t now = gate.load();
    for (Spin spin; now / kVersion == seen; now = gate.load()) {
      if (!spin.once()) sleep(seen);
    }
    return now;
  }

  void sleep(std::uint64_t seen) {
    std::unique_lock lock(mutex);
    gate.fetch_or(kAsleep);
    wake.wait(lock, [&] { return gate.load() / kVersion != seen; });
  }

  void leave() {
    const std::uint64_t before = gate.fetch_sub(1);
    if ((before & kWaiting) == 0 || (before & kInside) != 1) return;
    { const std::scoped_lock lock(mutex); }
    done.notify_one();
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads) {}

ThreadPool::~ThreadPool() {
  abandon_after_fork();
  if (!team_) return;
  team_->announce(kStop);
  for (std::thread& worker : team_->workers) worker.join();
}

// In the child of a fork the threads do not exist and the mutex may be held by one of them: what
// belonged to them can be neither joined nor freed.
void ThreadPool::abandon_after_fork() noexcept {
  // NOLINTNEXTLINE(bugprone-unused-return-value)
  if (team_ && team_->process != getpid()) (void)team_.release();
}

void ThreadPool::start() {
  abandon_after_fork();
  if (threads_ == 1) return;
  const bool first = !team_;
  if (first) team_ = std::make_unique<Team>(threads_);  // the destructor joins what is started
  team_->announce(0);
  for (int worker = 1; first && worker < threads_; ++worker) {
    try {
      team_->workers.emplace_back([team = team_.get(), worker] { team->work(worker); });
    } catch (const std::system_error&) {
      break;  // fewer threads, same results
    }
  }
}

void ThreadPool::run(std::int64_t count, TaskRef task) noexcept {
  if (!team_ || team_->workers.empty() || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) task.call(task.object, i, 0);
    return;
  }
  team_->task = task;
  team_->count = count;
  team_->next = 0;
  team_->announce(kOpen);
  team_->take_tasks(0);
  team_->close();
}

}  // namespace headwise::runtime
