#include "parse_problem.h"

#include <string_view>
#include <vector>

#include "commands.h"
#include "suggestion.h"

namespace headwise::cli {

namespace {

std::string see_help(const CLI::App& app) {
  const std::string command = app.get_parent() == nullptr ? "" : " " + app.get_name();
  return "see 'headwise" + command + " --help'";
}

std::string hint(const CLI::App& app, const std::string& near) {
  return near.empty() ? see_help(app) : "did you mean " + near + "?";
}

// What other programs call it, or other commands of this one.
struct Habit {
  std::string_view command;  // "": the program itself
  std::string_view typed;
  std::string_view meant;
};
constexpr Habit kHabits[] = {{"", "-V", "--version"},
                             {"view", "--output", "--png or --html"},
                             {"view", "--dark", "--theme dark"},
                             {"view", "--light", "--theme light"}};

std::string unknown_option(const CLI::App& app, const std::string& typed) {
  const std::string name = typed.substr(0, typed.find('='));
  const std::string command = app.get_parent() == nullptr ? "" : app.get_name();
  for (const Habit& habit : kHabits) {
    if (habit.command == command && habit.typed == name) {
      return "unknown option '" + name + "'; " + hint(app, std::string(habit.meant));
    }
  }
  std::vector<std::string> candidates;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) candidates.push_back("--" + known);
  }
  return "unknown option '" + name + "'; " + hint(app, nearest(name, candidates));
}

// What comes before a command's name is left to the program.
std::string unexpected_argument(const CLI::App& program) {
  const bool before = !program.remaining().empty();
  const CLI::App& app = before ? program : active(program);
  const std::vector<std::string> extras = app.remaining();
  const std::string typed = extras.empty() ? "" : extras.front();
  if (typed.size() > 1 && typed.front() == '-') return unknown_option(app, typed);
  if (&app == &program) return unknown_command(typed);
  return "unexpected argument '" + typed + "'; " + see_help(app);
}

// CLI11 tells the option in its message only: "--heads: 1 required N missing".
std::string name_in(const std::string& message) { return message.substr(0, message.find(": ")); }

}  // namespace

const CLI::App& active(const CLI::App& program) {
  const std::vector<CLI::App*> chosen = program.get_subcommands();
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): the program outlives every caller
  return chosen.empty() ? program : *chosen.front();
}

std::string unknown_command(const std::string& name) {
  std::vector<std::string> candidates;
  for (const Command& command : commands()) candidates.emplace_back(command.name);
  const std::string near = nearest(name, candidates);
  return "unknown command '" + name + "'; " +
         (near.empty() ? "see 'headwise --help'" : "did you mean " + near + "?");
}

std::string parse_problem(const CLI::App& program, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unexpected_argument(program);
  const std::string message = error.what();
  std::string problem = message;
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return problem;  // our own
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool missing = message.ends_with(" missing");
    problem = name_in(message) + (missing ? ": a value is missing" : ": given more than once");
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    problem = message.substr(0, message.find(" is required")) + ": missing";
  }
  return problem + "; " + see_help(active(program));
}

}  // namespace headwise::cli
