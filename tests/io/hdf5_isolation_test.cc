// The process apart in which libhdf5 runs: whatever happens there, the caller gets an error and keeps
// his files, his signals and his children.
#include "io/hdf5_isolation.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "io/malformed.h"
#include "support/sanitizers.h"

namespace headwise::io {
namespace {

using Work = std::function<void(ChildOutput&)>;
using Piece = std::span<const std::byte>;

constexpr ChildLimits kLimits = {.memory_bytes = std::uint64_t{256} << 20U, .seconds = 20};

std::string text_of(Piece piece) {
  return {reinterpret_cast<const char*>(piece.data()), piece.size()};
}

// All that the work sent.
std::string sent_by(const Work& work, const ChildLimits& limits = kLimits) {
  std::string all;
  run_isolated(limits, work, [&](Piece piece) { all += text_of(piece); });
  return all;
}

// The message of what was thrown.
std::string error_of(const Work& work, const ChildLimits& limits = kLimits) {
  try {
    (void)sent_by(work, limits);
  } catch (const Malformed& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool has_no_children() { return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

TEST(Isolation, WhatIsSentArrives) {
  EXPECT_EQ(sent_by([](ChildOutput&) {}), "");
  EXPECT_EQ(sent_by([](ChildOutput& output) {
              output.send("one ");
              output.send("");
              output.send("two");
            }),
            "one two");
  std::string large(5'000'003, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 + i / 1000);
  EXPECT_EQ(sent_by([&](ChildOutput& output) { output.send(large); }), large);
  EXPECT_TRUE(has_no_children());
}

TEST(Isolation, NothingIsChangedHere) {
  int counter = 1;
  EXPECT_EQ(sent_by([&](ChildOutput& output) { output.send(std::to_string(++counter)); }), "2");
  EXPECT_EQ(counter, 1);
}

TEST(Isolation, ExceptionsKeepTheirMessage) {
  EXPECT_EQ(error_of([](ChildOutput&) { malformed("'x': is bad"); }), "'x': is bad");
  EXPECT_EQ(error_of([](ChildOutput&) { throw std::bad_alloc(); }), "needs too much memory");
  EXPECT_EQ(error_of([](ChildOutput&) { throw std::logic_error(std::string(9999, 'x')); }),
            std::string(2000, 'x'));
  EXPECT_TRUE(has_no_children());
}

TEST(Isolation, CrashesAreErrors) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGKILL}) {
    const std::string message = error_of([&](ChildOutput& output) {
      output.send("the beginning");
      (void)raise(signal);
    });
    EXPECT_EQ(message, "damaged: reading it crashes (signal " + std::to_string(signal) + ")");
  }
  EXPECT_EQ(error_of([](ChildOutput&) { _exit(0); }), "damaged: reading it ends early");
  EXPECT_TRUE(has_no_children());
}

TEST(Isolation, TheTaskIsNamed) {
  ChildLimits limits = kLimits;
  limits.task = "writing it";
  EXPECT_EQ(error_of([](ChildOutput&) { _exit(3); }, limits), "writing it ends early");
}

TEST(Isolation, LoopsEnd) {
  const ChildLimits limits{.memory_bytes = kLimits.memory_bytes, .seconds = 1, .silent_seconds = 1};
  EXPECT_EQ(error_of(
                [](ChildOutput&) {
                  volatile bool forever = true;
                  while (forever) {
                  }
                },
                limits),
            "damaged: reading it does not end");
  // One that sleeps uses no time of the processor, as one that waits for a lock.
  EXPECT_EQ(error_of([](ChildOutput&) { (void)sleep(1000); }, limits),
            "damaged: reading it does not end");
  EXPECT_TRUE(has_no_children());
}

TEST(Isolation, MemoryIsLimited) {
  if (test_support::kSanitized) GTEST_SKIP() << "sanitizers have an allocator of their own";
  EXPECT_EQ(error_of([](ChildOutput& output) {
              const std::vector<char> large(std::size_t{300} << 20U, 'x');
              output.send(std::to_string(large.size()));
            }),
            "needs too much memory");
  EXPECT_EQ(sent_by([](ChildOutput& output) {
              const std::vector<char> fits(std::size_t{100} << 20U, 'x');
              output.send(std::to_string(fits.size()));
            }),
            std::to_string(100 << 20));
}

TEST(Isolation, NoFileCanBeOpened) {
  if (test_support::kSanitized) GTEST_SKIP() << "sanitizers open files of their own";
  EXPECT_EQ(sent_by([](ChildOutput& output) {
              const int file = open("/dev/null", O_RDONLY);
              output.send(file < 0 && errno == EMFILE ? "none" : "some");
            }),
            "none");
}

TEST(Isolation, NothingIsPrinted) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const std::string message = error_of([](ChildOutput&) {
    (void)!write(STDOUT_FILENO, "out", 3);
    (void)!write(STDERR_FILENO, "err", 3);
    (void)std::fputs("buffered", stdout);
    std::abort();
  });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_NE(message.find("crashes"), std::string::npos);
}

// Finds the pipe as code that went astray would: it is the only file above the standard streams.
int pipe_of_child() {
  int descriptor = 3;
  while (fcntl(descriptor, F_GETFD) < 0) ++descriptor;
  return descriptor;
}

TEST(Isolation, NonsenseIsRefused) {
  const auto error_of_bytes = [](std::string bytes) {
    return error_of([&](ChildOutput&) {
      (void)!write(pipe_of_child(), bytes.data(), bytes.size());
      _exit(0);
    });
  };
  const std::string nonsense = "damaged: reading it gives nonsense";
  EXPECT_EQ(error_of_bytes(std::string(100, '\xFF')), nonsense);
  EXPECT_EQ(error_of_bytes(std::string(8, '\0')), nonsense) << "an unknown kind";
  EXPECT_EQ(error_of_bytes({1, 0, 0, 0, 1, 0, 1, 0}), nonsense) << "a frame of 65537 bytes";
  EXPECT_EQ(error_of_bytes({1, 0, 0}), "damaged: reading it ends early");
  EXPECT_EQ(error_of_bytes({1, 0, 0, 0, 9, 0, 0, 0, 'x'}), "damaged: reading it ends early");
}

TEST(Isolation, ReceiverMayGiveUp) {
  const Work endless = [](ChildOutput& output) {
    const std::string piece(100'000, 'x');
    while (true) output.send(piece);
  };
  std::size_t received = 0;
  EXPECT_THROW(run_isolated(kLimits, endless,
                            [&](Piece piece) {
                              received += piece.size();
                              if (received > 1'000'000) throw std::out_of_range("enough");
                            }),
               std::out_of_range);
  EXPECT_TRUE(has_no_children());
}

TEST(Isolation, SignalsOfTheCallerStay) {
  static volatile std::sig_atomic_t handled = 0;
  struct sigaction mine {};
  struct sigaction before {};
  mine.sa_handler = [](int) { handled = handled + 1; };
  ASSERT_EQ(sigaction(SIGSEGV, &mine, &before), 0);
  sigset_t blocked;
  sigset_t mask_before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &mask_before), 0);

  const std::string message = error_of([](ChildOutput&) { (void)raise(SIGSEGV); });
  EXPECT_NE(message.find("signal 11"), std::string::npos) << "the handler is not the child's";
  EXPECT_EQ(handled, 0);
  struct sigaction now {};
  sigset_t mask_now;
  (void)sigaction(SIGSEGV, &before, &now);
  (void)pthread_sigmask(SIG_SETMASK, &mask_before, &mask_now);
  EXPECT_EQ(now.sa_handler, mine.sa_handler);
  EXPECT_EQ(sigismember(&mask_now, SIGUSR1), 1);
  EXPECT_EQ(sigismember(&mask_now, SIGUSR2), 0);
}

// A program may let the system bury its children. Then nobody can say how one died.
TEST(Isolation, ChildrenThatNobodyWaitsFor) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGCHLD, &ignore, &before), 0);
  EXPECT_EQ(sent_by([](ChildOutput& output) { output.send("all"); }), "all");
  EXPECT_EQ(error_of([](ChildOutput&) { (void)raise(SIGSEGV); }), "damaged: reading it ends early");
  (void)sigaction(SIGCHLD, &before, nullptr);
}

// Another thread forks at the wrong moment, when this process still has both ends of the pipe, and its
// child keeps them. Then the pipe does not end when our child does.
std::atomic<bool> hold_pipe = false;
std::atomic<pid_t> holder = -1;

void hold_pipe_after_fork() {
  if (!hold_pipe.exchange(false)) return;
  const auto process = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (process == 0) {
    while (true) (void)pause();
  }
  holder = process;
}

TEST(Isolation, PipeThatSomebodyElseHolds) {
  ASSERT_EQ(pthread_atfork(nullptr, hold_pipe_after_fork, nullptr), 0);
  hold_pipe = true;
  EXPECT_EQ(error_of([](ChildOutput& output) {
              output.send("something");
              (void)raise(SIGSEGV);
            }),
            "damaged: reading it crashes (signal 11)");
  ASSERT_GT(holder, 0);
  (void)kill(holder, SIGKILL);
  EXPECT_EQ(waitpid(holder, nullptr, 0), holder);
}

TEST(Isolation, StandardStreamsMayBeClosed) {
  // In a process of its own, whose pipe then gets the numbers of standard streams.
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    for (int stream = 0; stream < 3; ++stream) (void)close(stream);
    bool good = false;
    try {
      good = sent_by([](ChildOutput& output) { output.send("all"); }) == "all";
    } catch (const std::exception&) {
      good = false;
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
}

TEST(Isolation, ManyThreadsAtOnce) {
  if (test_support::kSanitized) {
    // Its allocator's locks are not opened in the child: that one then waits for ever.
    GTEST_SKIP() << "sanitizers do not expect a fork amid allocations of other threads";
  }
  std::vector<std::thread> threads;
  std::vector<int> good(6);
  for (std::size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([t, &good] {
      for (int round = 0; round < 20; ++round) {
        const std::string text = std::to_string(t) + ":" + std::to_string(round);
        const std::string large(200'000, static_cast<char>('a' + t));
        if (round % 5 == 4) {
          good[t] += error_of([](ChildOutput&) { (void)raise(SIGSEGV); }).ends_with("(signal 11)");
        } else {
          good[t] +=
              sent_by([&](ChildOutput& output) { output.send(text + large); }) == text + large;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : good) EXPECT_EQ(count, 20);
  EXPECT_TRUE(has_no_children());
}

TEST(Isolation, FailureToForkIsAnError) {
  if (test_support::kSanitized) GTEST_SKIP() << "sanitizers open files of their own";
  // In a process of its own: the limit is for a whole user, and root has none.
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    const rlimit none{0, 0};
    (void)setrlimit(RLIMIT_NOFILE, &none);
    const std::string message = error_of([](ChildOutput&) {});
    _exit(message == "cannot start a process: pipe: Too many open files" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace headwise::io
