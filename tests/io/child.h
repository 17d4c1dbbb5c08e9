// Runs something in a process of its own, which may be killed, limited or lose its rights.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <string>

namespace headwise::test_support {

struct ChildOutcome {
  int signal = 0;       // that ended it, or 0
  std::string error{};  // what it threw, or ""

  [[nodiscard]] bool succeeded() const { return signal == 0 && error.empty(); }
};

// `call` runs in the child; what it throws is told. The child never returns from here.
template <typename Call>
ChildOutcome in_child(const Call& call) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return {0, "no pipe"};
  const pid_t child = ::fork();
  if (child == 0) {
    std::string error;
    try {
      call();
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    if (!error.empty() && ::write(pipe[1], error.data(), error.size()) < 0) ::_exit(2);
    ::_exit(0);  // without what the parent would do at its end
  }
  ::close(pipe[1]);
  ChildOutcome outcome;
  std::array<char, 256> buffer{};
  for (ssize_t count = 0; (count = ::read(pipe[0], buffer.data(), buffer.size())) > 0;) {
    outcome.error.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) outcome.error = "exit";
  return outcome;
}

}  // namespace headwise::test_support
