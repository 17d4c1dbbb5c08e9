#include "runtime/thread_pool.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace headwise::runtime {

// Everything that the workers share. One round is one run(): the caller bumps `round`, workers
// wake, take tasks until none are left, and the last one to finish wakes the caller.
struct ThreadPool::Team {
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  std::uint64_t round = 0;
  int busy = 0;
  bool stop = false;
  TaskRef task;
  std::int64_t count = 0;
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> workers;
  pid_t process = getpid();

  void take_tasks(int worker) {
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      task.call(task.object, i, worker);
    }
  }

  void work(int worker) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stop || round != seen; });
      if (stop) return;
      seen = round;
      lock.unlock();
      take_tasks(worker);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads) {}

ThreadPool::~ThreadPool() {
  abandon_after_fork();
  if (!team_) return;
  {
    const std::lock_guard lock(team_->mutex);
    team_->stop = true;
  }
  team_->wake.notify_all();
  for (std::thread& worker : team_->workers) worker.join();
}

// In the child of a fork the threads do not exist and the mutex may be held by one of them: what
// belonged to them can be neither joined nor freed.
void ThreadPool::abandon_after_fork() noexcept {
  if (team_ && team_->process != getpid()) (void)team_.release();
}

void ThreadPool::start() {
  abandon_after_fork();
  if (team_ || threads_ == 1) return;
  auto team = std::make_unique<Team>();
  team->workers.reserve(static_cast<std::size_t>(threads_ - 1));
  team_ = std::move(team);  // from here on the destructor joins what was started
  for (int worker = 1; worker < threads_; ++worker) {
    try {
      team_->workers.emplace_back([shared = team_.get(), worker] { shared->work(worker); });
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
  {
    const std::lock_guard lock(team_->mutex);
    team_->task = task;
    team_->count = count;
    team_->next = 0;
    team_->busy = static_cast<int>(team_->workers.size());
    ++team_->round;
  }
  team_->wake.notify_all();
  team_->take_tasks(0);
  std::unique_lock lock(team_->mutex);
  team_->done.wait(lock, [&] { return team_->busy == 0; });
}

}  // namespace headwise::runtime
