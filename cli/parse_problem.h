// What is wrong with a command line, in one line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace headwise::cli {

// The command that was named, or the program itself.
const CLI::App& active(const CLI::App& program);

std::string parse_problem(const CLI::App& program, const CLI::ParseError& error);

// "unknown command 'plam'; did you mean plan?"
std::string unknown_command(const std::string& name);

}  // namespace headwise::cli
