#include "help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.h"
#include "option_checks.h"
#include "terminal/text.h"

namespace headwise::cli {

namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

// What holds for every command.
struct Section {
  const char* title;
  const char* column;  // what its first one holds
  Rows rows;
};
const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"Environment",
       "variable",
       {{"NO_COLOR", "set and not empty: no colours in the terminal"},
        {"COLORTERM", "truecolor or 24bit: all colours in the terminal, else 256"},
        {"COLUMNS, LINES", "the size of what is no terminal (80 × 24)"},
        {"HEADWISE_TARGET", "kernels to use where --target does not say"}}},
      {"Exit codes",
       "code",
       {{"0", "done, also if the reader of a pipe had enough"},
        {"1", "something failed: a file, memory, a check"},
        {"2", "the command line does not fit"}}},
  };
  return all;
}

constexpr const char* kManners =
    "Errors are one line on standard error. A file is written whole or not at all: Ctrl-C, a kill "
    "or a full disk leave the old one, and nothing else.";
constexpr const char* kHelpWord = "explains a command, with examples";

const Command* command_of(const CLI::App& app) {
  const auto& all = commands();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Command& command) {
    return app.get_parent() != nullptr && app.get_name() == command.name;
  });
  return found == all.end() ? nullptr : &*found;
}

bool is_shown(const CLI::Option& option) { return !option.get_group().empty(); }

// "--key-dim N", "-h, --help", "FILE"
std::string option_name(const CLI::Option& option) {
  std::string name = option.get_positional() ? option.get_name(true) : option.get_name(false, true);
  for (std::size_t comma = name.find(','); comma != std::string::npos;
       comma = name.find(',', comma + 2)) {
    name.insert(comma + 1, " ");
  }
  const bool takes_value = !option.get_positional() && option.get_expected_max() > 0;
  return takes_value ? name + " " + type_of(option) : name;
}

std::string option_text(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) text += " (" + option.get_default_str() + ")";
  return text;
}

// Groups in the order of their first option; positional arguments first, --help last.
std::vector<std::string> groups_of(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options()) {
    const std::string& group = option->get_group();
    if (!is_shown(*option) || option->get_positional() || group == "Options") continue;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  groups.emplace_back("Options");
  return groups;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app, std::string_view group) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options()) {
    if (is_shown(*option) && !option->get_positional() && option->get_group() == group) {
      options.push_back(option);
    }
  }
  return options;
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options()) {
    if (is_shown(*option) && option->get_positional()) options.push_back(option);
  }
  return options;
}

std::string usage(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "headwise COMMAND [options]";
  std::string text = "headwise " + app.get_name();
  for (const CLI::Option* argument : arguments_of(app)) {
    const std::string name = argument->get_name(true);
    text += argument->get_required() ? " " + name : " [" + name + "]";
  }
  return text + " [options]";
}

// Words in lines of at most `width` columns; every line but the first begins with `indent` blanks.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string result;
  std::size_t column = indent;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::size_t length = terminal::columns(word);
    if (column > indent && column + 1 + length > width) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += length;
    if (end < text.size() && text[end] == '\n') {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    }
    begin = end + 1;
  }
  return result;
}

std::string two_columns(const Rows& rows, std::size_t width) {
  constexpr std::size_t kMost = 26;  // a longer name has its text on the next line
  std::size_t first = 0;
  for (const auto& row : rows) {
    if (terminal::columns(row.first) <= kMost)
      first = std::max(first, terminal::columns(row.first));
  }
  const std::size_t indent = first + 4;
  std::string text;
  for (const auto& [name, description] : rows) {
    text += "  " + terminal::left(name, first);
    text += terminal::columns(name) > first ? "\n" + std::string(indent, ' ') : "  ";
    text += wrapped(description, indent, std::max(width, indent + 20)) + "\n";
  }
  return text;
}

Rows rows_of(const std::vector<const CLI::Option*>& options) {
  Rows rows;
  rows.reserve(options.size());
  for (const CLI::Option* option : options) {
    rows.emplace_back(option_name(*option), option_text(*option));
  }
  return rows;
}

std::string option_rows(const std::vector<const CLI::Option*>& options, std::size_t width) {
  return two_columns(rows_of(options), width);
}

std::string command_list(std::size_t width) {
  Rows rows;
  for (const Command& command : commands()) rows.emplace_back(command.name, command.summary);
  return two_columns(rows, width);
}

// Characters that would be markup in a table.
std::string in_table(std::string text) {
  for (std::size_t bar = text.find('|'); bar != std::string::npos; bar = text.find('|', bar + 2)) {
    text.insert(bar, "\\");
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string markdown_table(const char* title, const Rows& rows) {
  std::string text = std::string("| ") + title + " | meaning |\n|---|---|\n";
  for (const auto& [name, meaning] : rows) {
    text += "| `" + in_table(name) + "` | " + in_table(meaning) + " |\n";
  }
  return text + "\n";
}

std::string markdown_table(const std::vector<const CLI::Option*>& options) {
  return markdown_table("option", rows_of(options));
}

// What `headwise --help` says beside the list of commands.
std::string program_markdown(const CLI::App& program) {
  std::string text = std::string("`headwise help COMMAND` ") + kHelpWord + ".\n\n" +
                     markdown_table(options_of(program, "Options"));
  for (const auto& [title, column, rows] : sections()) {
    text += std::string("**") + title + "**\n\n" + markdown_table(column, rows);
  }
  return text + kManners + "\n\n";
}

std::string command_markdown(const CLI::App& app, const Command& command) {
  std::string text = "## headwise " + std::string(command.name) + "\n\n";
  text += std::string(command.description) + "\n\n```\n" + usage(app) + "\n```\n\n";
  if (!arguments_of(app).empty()) text += markdown_table(arguments_of(app));
  for (const std::string& group : groups_of(app)) {
    if (options_of(app, group).empty()) continue;
    if (group != "Options") text += "**" + group + "**\n\n";
    if (group == "Options") text += "**General**\n\n";
    text += markdown_table(options_of(app, group));
  }
  text += "Examples:\n\n```\n";
  for (const char* example : command.examples) text += std::string(example) + "\n";
  return text + "```\n\n";
}

}  // namespace

std::string help_text(const CLI::App& app, int width) {
  const auto room = static_cast<std::size_t>(std::clamp(width, 40, 100));
  const Command* command = command_of(app);
  std::string text;
  if (command == nullptr) {
    text = wrapped(app.get_description(), 0, room) + "\n\nUsage: " + usage(app) +
           "\n\nCommands:\n" + command_list(room) + "\n";
  } else {
    text = wrapped(std::string("headwise ") + command->name + ": " + command->summary, 0, room) +
           "\n\nUsage: " + usage(app) + "\n\n" + wrapped(command->description, 0, room) + "\n\n";
    if (!arguments_of(app).empty()) text += option_rows(arguments_of(app), room) + "\n";
  }
  for (const std::string& group : groups_of(app)) {
    if (!options_of(app, group).empty()) {
      text += group + ":\n" + option_rows(options_of(app, group), room) + "\n";
    }
  }
  if (command != nullptr) {
    text += "Examples:\n";
    for (const char* example : command->examples) text += "  " + std::string(example) + "\n";
    return text;
  }
  for (const auto& [title, column, rows] : sections()) {
    text += std::string(title) + ":\n" + two_columns(rows, room) + "\n";
  }
  return text + wrapped(kManners, 0, room) + "\n" +
         wrapped(std::string("'headwise help COMMAND' ") + kHelpWord + ".", 0, room) + "\n";
}

std::string reference_markdown(const CLI::App& program) {
  std::string text =
      "# The command line\n\n<!-- Made by `make reference` from what --help prints: change the "
      "program, not this file. -->\n\n" +
      program.get_description() + "\n\n| command | |\n|---|---|\n";
  for (const Command& command : commands()) {
    const std::string name = command.name;
    text.append("| [`headwise ").append(name).append("`](#headwise-").append(name);
    text.append(") | ").append(command.summary).append(" |\n");
  }
  text += "\n" + program_markdown(program);
  for (const Command& command : commands()) {
    text += command_markdown(*program.get_subcommand(command.name), command);
  }
  text.pop_back();  // a single newline ends the file
  return text;
}

}  // namespace headwise::cli
