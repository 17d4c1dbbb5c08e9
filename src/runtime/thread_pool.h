// A few threads that share out numbered tasks. Which thread takes which task is left to chance, so
// tasks must not depend on it; each writes what no other task touches.
#pragma once

#include <cstdint>
#include <memory>

namespace headwise::runtime {

// task(index, worker): worker is 0 … threads−1, unique among those running at the same time.
struct TaskRef {
  void* object = nullptr;
  void (*call)(void* object, std::int64_t index, int worker) = nullptr;
};

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return threads_; }
  // Makes sure that the threads are there, again after a fork. If the system refuses some of them,
  // the others do their work.
  void start();
  // Runs tasks 0 … count−1 on the calling thread and the others, and waits for all of them.
  void run(std::int64_t count, TaskRef task) noexcept;

 private:
  struct Team;
  void abandon_after_fork() noexcept;

  int threads_;
  std::unique_ptr<Team> team_;
};

}  // namespace headwise::runtime
