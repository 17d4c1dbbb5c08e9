// --help of the program and of every command, and docs/cli.md: one description, two dresses.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace headwise::cli {

// For a terminal of that width.
std::string help_text(const CLI::App& app, int width);

// All commands as Markdown.
std::string reference_markdown(const CLI::App& program);

}  // namespace headwise::cli
