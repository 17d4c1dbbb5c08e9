// headwise: plan, run, inspect, convert and see attention from the command line.
//
//   arguments → CLI::App with every command declared → the command's callback → exit code
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include <cerrno>

#include "commands.h"
#include "headwise/error.h"
#include "headwise/io.h"
#include "help.h"
#include "library_words.h"
#include "parse_problem.h"
#include "terminal/printable.h"
#include "terminal/terminal.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

constexpr int kFailure = 1;
constexpr int kBadUse = 2;

// One line, whatever the message holds: a file's bytes may have found their way into it.
int complain(const std::string& message, int code) {
  std::fprintf(stderr, "headwise: %s\n", terminal::printable(message).c_str());
  return code;
}

// Standard output may be a pipe whose reader had enough (no error), or a full disk.
int finish_output() {
  const bool flushed = std::fflush(stdout) == 0;
  const int problem = errno;
  if (flushed && std::ferror(stdout) == 0) return 0;
  if (problem == EPIPE) return 0;
  return complain(std::string("standard output: ") + std::strerror(problem), kFailure);
}

int run(int count, char** arguments) {
  CLI::App program;
  declare_program(program);
  try {
    program.parse(count, arguments);
    if (program.get_subcommands().empty() && count <= 1) {
      return complain("a command is missing; 'headwise --help' lists them", kBadUse);
    }
  } catch (const CLI::CallForHelp&) {
    std::fputs(help_text(active(program), terminal::standard_output().width).c_str(), stdout);
  } catch (const CLI::CallForVersion& version) {
    std::printf("%s\n", version.what());
  } catch (const CLI::ParseError& error) {
    return complain(parse_problem(program, error), kBadUse);
  } catch (const UsageError& error) {
    return complain(error.what(), kBadUse);
  } catch (const ArgumentError& error) {  // the library's word on what the options asked for
    return complain(in_words_of(active(program), error), kBadUse);
  } catch (const std::bad_alloc& error) {
    const bool ours = dynamic_cast<const OutOfMemory*>(&error) != nullptr;
    return complain(ours ? error.what() : "out of memory", kFailure);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailure);
  }
  return 0;
}

// Ends as the signal would have, but without half a file.
void end_by(int signal) {
  remove_unfinished_files();
  (void)std::signal(signal, SIG_DFL);
  (void)std::raise(signal);  // it comes when this handler returns
}

void tidy_up_when_interrupted() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler == SIG_IGN)
      continue;  // nohup
    struct sigaction action {};
    action.sa_handler = end_by;
    sigfillset(&action.sa_mask);  // a second signal waits
    (void)::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

}  // namespace headwise::cli

int main(int count, char** arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): writing tells it by EPIPE
  std::signal(SIGXFSZ, SIG_IGN);  // NOLINT(cert-err33-c): and a file that is too large by EFBIG
  headwise::cli::tidy_up_when_interrupted();
  try {
    const int code = headwise::cli::run(count, arguments);
    const int output_code = headwise::cli::finish_output();
    return code != 0 ? code : output_code;
  } catch (...) {  // there was no memory left to say what is wrong
    std::fputs("headwise: out of memory\n", stderr);
    return 1;
  }
}
