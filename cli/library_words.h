// The library speaks of its arguments and types; users know options and files.
#pragma once

#include <string>

#include "headwise/error.h"

namespace CLI {
class App;
}

namespace headwise::cli {

// "num_heads: expected …, got …": without the function's name.
std::string problem_of(const ArgumentError& error);

// "--heads: expected …, got …", where the command has an option for that argument.
std::string in_words_of(const CLI::App& command, const ArgumentError& error);

}  // namespace headwise::cli
