// What the values of options may be: checks that CLI11 runs while it reads the command line, so that
// all commands refuse the same in the same words.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace headwise::cli {

constexpr std::int64_t kMostThreads = 1024;  // as Context has it

CLI::Validator whole_number(std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                            std::int64_t most = std::numeric_limits<std::int64_t>::max());
CLI::Validator number_within(double least, double most);
CLI::Validator one_of(const std::vector<std::string>& words);

// On every option that takes a value: an empty one, perhaps of a variable that is not set, would look
// as if the option had not been given. `may_be_empty` names the one for which it means something.
void refuse_empty_values(CLI::App& command, const std::string& may_be_empty);

// "FILE", "N", without the words of one_of.
std::string type_of(const CLI::Option& option);
// Those of one_of; empty: any value.
std::vector<std::string> words_of(const CLI::Option& option);

}  // namespace headwise::cli
