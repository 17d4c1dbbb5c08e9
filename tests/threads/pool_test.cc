// The thread pool by itself: every task once, in order, by who is there; nobody sleeps too deeply.
#include "runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/sanitizers.h"

namespace headwise::runtime {
namespace {

template <typename Task>
void run(ThreadPool& pool, std::int64_t count, Task&& task) {
  pool.run(count, {&task, [](void* object, std::int64_t index, int worker) {
                     (*static_cast<std::remove_reference_t<Task>*>(object))(index, worker);
                   }});
}

// Waits until condition() holds; false if it never does. The time is for a broken pool to fail
// instead of hanging, and far from what a good one needs.
template <typename Condition>
bool eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Runs tasks that count themselves; the number of tasks that did not run exactly once, or as a
// worker that there is not, or as one that was running another task.
int faults(ThreadPool& pool, std::int64_t count) {
  std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
  std::vector<std::atomic<bool>> running(static_cast<std::size_t>(pool.threads()));
  std::atomic<int> wrong{0};
  run(pool, count, [&](std::int64_t index, int worker) {
    if (worker < 0 || worker >= pool.threads()) {
      ++wrong;
      return;
    }
    std::atomic<bool>& mine = running[static_cast<std::size_t>(worker)];
    if (mine.exchange(true)) ++wrong;
    ++times[static_cast<std::size_t>(index)];
    mine = false;
  });
  for (const std::atomic<int>& n : times) wrong += n == 1 ? 0 : 1;
  return wrong;
}

// True if the two tasks of a round run at the same time, for which the worker has to come. What the
// worker writes last, and late if so wanted, has to be visible after the round.
bool worker_comes(ThreadPool& pool, std::chrono::microseconds lateness = {}) {
  std::atomic<int> here{0};
  bool met[2] = {false, false};
  run(pool, 2, [&](std::int64_t index, int worker) {
    ++here;
    const bool both = eventually([&] { return here == 2; });
    if (worker != 0) std::this_thread::sleep_for(lateness);
    met[index] = both;
  });
  return met[0] && met[1];
}

// The threads of this process other than the calling one: how many, and how many of them sleep. A
// thread that spins is running or runnable, even while it yields.
struct OtherThreads {
  int all = 0;
  int asleep = 0;
};

OtherThreads other_threads() {
  OtherThreads found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    if (entry.path().filename() == std::to_string(gettid())) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    if (!std::getline(file, stat)) continue;  // it has just ended
    ++found.all;
    const std::size_t name_end = stat.rfind(')');
    if (name_end != std::string::npos && stat.compare(name_end, 3, ") S") == 0) ++found.asleep;
  }
  return found;
}

bool all_fall_asleep() {
  return eventually([] {
    const OtherThreads others = other_threads();
    return others.asleep == others.all;
  });
}

TEST(ThreadPool, EveryTaskOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(faults(pool, 5), 0) << "without start";
    pool.start();
    for (const std::int64_t count : {0, 1, 2, 3, 7, 64, 5000}) {
      EXPECT_EQ(faults(pool, count), 0) << threads << " threads, " << count << " tasks";
    }
    pool.start();
    EXPECT_EQ(faults(pool, 64), 0) << "started again";
  }
}

// A worker that is late for a round must not run a task of it, nor with it a task of the next: each
// round's tasks live in an object of its own, which is spoilt when the round is over.
TEST(ThreadPool, RoundsDoNotMix) {
  struct Round {
    std::atomic<int> number, left;
  };
  for (const int threads : {2, 5}) {
    ThreadPool pool(threads);
    pool.start();
    std::atomic<int> wrong{0};
    for (int round = 1; round <= 20000; ++round) {
      Round mine{round, 1 + round % 6};
      run(pool, mine.left.load(), [&wrong, &mine, round](std::int64_t index, int) {
        // Of changing lengths, so that a round ends at any moment of a worker's arrival.
        for (int i = 0; i < (round + index) % 50; ++i) wrong += mine.number == round ? 0 : 1;
        --mine.left;
      });
      wrong += mine.left == 0 ? 0 : 1;
      mine.number = 0;
      if (round % 100 == 0) pool.start();
    }
    EXPECT_EQ(wrong, 0);
  }
}

// Each task waits for the one before it: taken in any other order, they would wait for ever.
TEST(ThreadPool, AscendingOrder) {
  constexpr std::int64_t kTasks = 300;
  for (const int threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    pool.start();
    std::atomic<std::int64_t> finished{0};
    std::atomic<bool> stuck{false};
    run(pool, kTasks, [&](std::int64_t index, int) {
      if (!eventually([&] { return finished == index || stuck; })) stuck = true;
      ++finished;
    });
    EXPECT_FALSE(stuck);
    EXPECT_EQ(finished, kTasks);
  }
}

TEST(ThreadPool, WorkersComeToEveryRound) {
  ThreadPool pool(2);
  for (int call = 0; call < 20; ++call) {
    pool.start();
    for (int round = 0; round < 50; ++round) ASSERT_TRUE(worker_comes(pool)) << "one by one";
    // About as long as it takes to fall asleep, where a wake-up could get lost.
    for (int pause = 60; pause < 160; pause += 10) {
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      ASSERT_TRUE(worker_comes(pool)) << "after a pause of " << pause << " µs";
    }
  }
}

TEST(ThreadPool, WorkersHaveNumbersOfTheirOwn) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  pool.start();
  std::atomic<int> here{0};
  std::vector<std::atomic<int>> tasks(kThreads);  // of each worker
  run(pool, kThreads, [&](std::int64_t, int worker) {
    ++tasks[static_cast<std::size_t>(worker)];
    ++here;
    eventually([&] { return here == kThreads; });  // so that nobody takes two
  });
  for (const std::atomic<int>& n : tasks) EXPECT_EQ(n, 1);
}

TEST(ThreadPool, CallerWaitsForALongTask) {
  ThreadPool pool(2);
  pool.start();
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(worker_comes(pool, std::chrono::microseconds(50 * round)));
  }
}

TEST(ThreadPool, SleepsWhenThereIsNothingToDo) {
  ThreadPool pool(4);
  pool.start();
  EXPECT_EQ(faults(pool, 100), 0);
  EXPECT_TRUE(all_fall_asleep()) << "after a round";
  pool.start();
  EXPECT_TRUE(all_fall_asleep()) << "before a round";
  EXPECT_EQ(faults(pool, 100), 0);
}

TEST(ThreadPool, DestroyedAtOnce) {
  for (int i = 0; i < 300; ++i) {
    ThreadPool pool(1 + i % 5);
    pool.start();
    if (i % 2 == 0) {
      ASSERT_EQ(faults(pool, i % 7), 0);
    }
    if (i % 3 == 0) pool.start();
  }
}

TEST(ThreadPool, ManyAtOnce) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&wrong, caller] {
      ThreadPool pool(1 + caller % 4);
      for (int call = 0; call < 30; ++call) {
        pool.start();
        for (int round = 0; round < 10; ++round) wrong += faults(pool, 3 * round);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

// In the child of a fork there are no workers: without start(), that is a pool whose workers never
// come, and the caller must not wait for them.
TEST(ThreadPool, CallerDoesWithoutWorkersThatDoNotCome) {
  if (test_support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer and fork do not mix";
  ThreadPool pool(3);
  pool.start();
  ASSERT_EQ(faults(pool, 10), 0);
  ASSERT_TRUE(all_fall_asleep());
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(faults(pool, 2) + faults(pool, 100) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(faults(pool, 100), 0) << "and the parent goes on";
}

// Address space for a few stacks only: the system starts the first threads and refuses the others.
TEST(ThreadPool, FewerThreadsThanAskedFor) {
  if (test_support::kSanitized) GTEST_SKIP() << "sanitizers need the address space";
  constexpr int kThreads = 200;
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (40U << 20U);
  ThreadPool pool(kThreads);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  pool.start();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_LT(other_threads().all, kThreads - 1) << "the system refused none";
  EXPECT_EQ(pool.threads(), kThreads);
  EXPECT_EQ(faults(pool, 1000), 0);
}

}  // namespace
}  // namespace headwise::runtime
