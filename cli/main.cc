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
#include <vector>

#include <cerrno>

#include "commands.h"
#include "headwise/error.h"
#include "help.h"
#include "suggestion.h"
#include "terminal/terminal.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

constexpr int kFailure = 1;
constexpr int kBadUse = 2;

// One line, whatever the message holds: a file's bytes may have found their way into it.
int complain(const std::string& message, int code) {
  std::string line;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7F ? ' ' : c;
  }
  std::fprintf(stderr, "headwise: %s\n", line.c_str());
  return code;
}

// The program itself, where no command was named.
const CLI::App& active(const CLI::App& program) {
  const std::vector<CLI::App*> chosen = program.get_subcommands();
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): the program outlives every caller
  return chosen.empty() ? program : *chosen.front();
}

std::string unexpected_argument(const CLI::App& program) {
  const CLI::App& app = active(program);
  const std::vector<std::string> extras = app.remaining();
  const std::string typed = extras.empty() ? "" : extras.front();
  const bool is_option = typed.size() > 1 && typed.front() == '-';
  const std::string name = typed.substr(0, typed.find('='));
  std::vector<std::string> candidates;
  if (is_option) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& known : option->get_lnames()) candidates.push_back("--" + known);
    }
  } else if (&app == &program) {
    for (const Command& command : commands()) candidates.emplace_back(command.name);
  }
  const std::string near = nearest(name, candidates);
  std::string where = "headwise";
  if (&app != &program) where += " " + app.get_name();
  const char* what = is_option          ? "unknown option"
                     : &app == &program ? "unknown command"
                                        : "unexpected argument";
  return std::string(what) + " '" + name + "'; " +
         (near.empty() ? "see '" + where + " --help'" : "did you mean " + near + "?");
}

// CLI11's own words for the rest are clear enough, but for where to find help.
std::string parse_problem(const CLI::App& program, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unexpected_argument(program);
  std::string message = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    const std::string prefix = "Could not convert: ";  // "Could not convert: --heads = x"
    const std::size_t equals = message.find(" = ");
    if (message.starts_with(prefix) && equals != std::string::npos) {
      return message.substr(prefix.size(), equals - prefix.size()) + ": expected a number, got '" +
             message.substr(equals + 3) + "'";
    }
  }
  const CLI::App& app = active(program);
  const std::string command = &app == &program ? "" : " " + app.get_name();
  return message + "; see 'headwise" + command + " --help'";
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
    return complain(error.what(), kBadUse);
  } catch (const std::bad_alloc& error) {
    const bool ours = dynamic_cast<const OutOfMemory*>(&error) != nullptr;
    return complain(ours ? error.what() : "out of memory", kFailure);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailure);
  }
  return 0;
}

}  // namespace

}  // namespace headwise::cli

int main(int count, char** arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): writing tells it by EPIPE
  try {
    const int code = headwise::cli::run(count, arguments);
    const int output_code = headwise::cli::finish_output();
    return code != 0 ? code : output_code;
  } catch (...) {  // there was no memory left to say what is wrong
    std::fputs("headwise: out of memory\n", stderr);
    return 1;
  }
}
