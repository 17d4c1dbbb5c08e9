// The commands of the program. Each is one file, <name>_command.cc, that declares its options on a
// CLI::App and sets its callback; the callback throws UsageError for options that do not fit each
// other (exit code 2) and anything else for what went wrong (exit code 1).
#pragma once

#include <vector>

namespace CLI {
class App;  // <CLI/CLI.hpp> takes seconds to compile: only those who call it include it
}

namespace headwise::cli {

struct Command {
  const char* name;
  const char* summary;                // one line, for the list of commands
  const char* description;            // a paragraph or two
  std::vector<const char*> examples;  // "headwise plan --shape 32,128,512 …", without "$"
  void (*declare)(CLI::App& command);
};

// In the order of --help.
const std::vector<Command>& commands();

// The whole command line, with every command declared on it. --help, completion and docs/cli.md all
// come from this.
void declare_program(CLI::App& program);

// One for each command file.
void declare_run(CLI::App& command);
void declare_plan(CLI::App& command);
void declare_inspect(CLI::App& command);
void declare_convert(CLI::App& command);
void declare_view(CLI::App& command);
void declare_completion(CLI::App& command);

}  // namespace headwise::cli
