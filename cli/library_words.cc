#include "library_words.h"

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string_view>

namespace headwise::cli {

namespace {

// Arguments of the library, and the options that they may come from: of several the message tells
// which, or the command line.
struct OptionOfArgument {
  std::string_view argument;
  std::string_view option;
  std::string_view message_has = {};
};
constexpr OptionOfArgument kOptions[] = {
    {"num_heads", "--heads"},
    {"num_kv_heads", "--kv-heads"},
    {"key_dim", "--key-dim"},
    {"value_dim", "--value-dim"},
    {"output_features", "--output-features"},
    {"key_features", "--key-features"},
    {"value_features", "--value-features"},
    {"query_features", "--shape"},
    {"extents", "--shape"},
    {"call", "--shape"},
    {"config and call", "--shape"},
    {"query", "--input"},
    {"query", "--query"},
    {"query", "--shape"},
    {"key", "--key"},
    {"key", "--input"},
    {"key", "--query"},
    {"value", "--value"},
    {"value", "--key"},
    {"value", "--input"},
    {"options.mask", "--valid-lens", "key lengths"},
    {"options.mask", "--query-offset", "query offset"},
    {"options.mask", "--mask"},
    {"options.bias", "--bias"},
    {"options.weights.heads", "--show-heads"},
    {"options.weights.rows", "--rows"},
    {"threads", "--threads"},
    {"target", "--target"},
    {"map", "--fold"},
    {"shift", "--fold-shift"},
    {"names", "--name"},
    {"tensors", "--name"},
    {"sequence", "--sequence"},
    {"heads", "--show-heads"},
    {"rows", "--rows"},
    {"picture", "--png"},
    {"options", "--width and --height"},
    {"options.width", "--width"},
};

// Words of C++ within a message. That about axes is of a mask's or a bias's: OPTION is the one.
struct Word {
  std::string_view cpp;
  std::string_view plain;
};
constexpr Word kWords[] = {
    {"Axes::BatchQueryKey or Axes::HeadQueryKey with rank 3",
     "OPTION-axes batch-query-key or OPTION-axes head-query-key for three axes"},
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// By its first name: "--width and --height" is there if --width is.
const CLI::Option* option_named(const CLI::App& command, std::string_view option) {
  return command.get_option_no_throw(std::string(option.substr(0, option.find(' '))));
}

// The first that was given, or the first that the command has. "options.bias[1]" is one of several
// biases.
std::string option_for(const CLI::App& command, const ArgumentError& error,
                       const std::string& message) {
  const std::string argument = error.argument().substr(0, error.argument().find('['));
  std::string_view first;
  for (const auto& [known, name, message_has] : kOptions) {
    if (known != argument || message.find(message_has) == std::string::npos) continue;
    const CLI::Option* option = option_named(command, name);
    if (option == nullptr) continue;
    if (option->count() > 0) return std::string(name);
    if (first.empty()) first = name;
  }
  return first.empty() ? error.argument() : std::string(first);
}

}  // namespace

std::string problem_of(const ArgumentError& error) {
  const std::string text = error.what();
  const std::string function = "[" + error.function() + "] ";
  return text.starts_with(function) ? text.substr(function.size()) : text;
}

std::string in_words_of(const CLI::App& command, const ArgumentError& error) {
  std::string message = problem_of(error).substr(error.argument().size());
  const std::string option = option_for(command, error, message);
  for (const Word& word : kWords) replace_all(message, word.cpp, word.plain);
  replace_all(message, "OPTION", option);
  return option + message;
}

}  // namespace headwise::cli
