// Work on many heads, shared by threads that live as long as the work.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace headwise::analyze {

// Counts steps for SpectraOptions::progress. Any thread may report.
class Progress {
 public:
  using Report = std::function<void(std::int64_t done, std::int64_t all)>;
  Progress(const Report& report, std::int64_t all) : report_(report), all_(all) {}

  void step() {
    if (!report_) return;
    const std::scoped_lock lock(mutex_);
    report_(++done_, all_);
  }

 private:
  const Report& report_;
  std::int64_t all_;
  std::int64_t done_ = 0;
  std::mutex mutex_;
};

// task(0) … task(count − 1), each once, in any order; each writes what no other touches. The first
// exception of a task ends the work and is thrown here.
template <typename Task>
void for_each_head(std::int64_t count, int threads, const Task& task) {
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      for (std::int64_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      const std::scoped_lock lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (int i = 1; i < threads && i < count; ++i) others.emplace_back(work);
    } catch (const std::system_error&) {  // the system gives no more threads: those there do it all
    }
    work();
  }  // waits for all
  if (failure) std::rethrow_exception(failure);
}

}  // namespace headwise::analyze
