// Scripts for shells, made from the options that every command declares.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

struct KnownOption {
  std::string name;  // "--key-dim"
  std::string text;
  bool takes_value = false;
};

// Text between single quotes of any shell.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c == '\n' ? ' ' : c;
    }
  }
  return result + "'";
}

std::vector<KnownOption> options_of(const CLI::App& app) {
  std::vector<KnownOption> options;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      options.push_back({"--" + name, option->get_description(), option->get_expected_max() > 0});
    }
  }
  return options;
}

std::string words(const CLI::App& app) {
  std::string text;
  for (const KnownOption& option : options_of(app)) text += " " + option.name;
  return text.empty() ? text : text.substr(1);
}

std::string command_names() {
  std::string names;
  for (const Command& command : commands())
    names += std::string(names.empty() ? "" : " ") + command.name;
  return names;
}

std::string bash_script(const CLI::App& program) {
  std::string text =
      "_headwise() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} options=\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '" +
      command_names() +
      " --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const Command& command : commands()) {
    const CLI::App& app = *program.get_subcommand(command.name);
    std::string choices = words(app);
    if (std::string(command.name) == "completion") choices += " bash zsh fish";
    text += "    " + std::string(command.name) + ") options='" + choices + "' ;;\n";
  }
  return text +
         "  esac\n"
         "  if [[ $word == -* || ${COMP_WORDS[1]} == completion ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _headwise headwise\n";
}

// zsh's _arguments reads [ ] : as its own.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_script(const CLI::App& program) {
  std::string text = "#compdef headwise\n_headwise() {\n  local -a commands=(\n";
  for (const Command& command : commands()) {
    text += "    " + quoted(zsh_text(command.name) + ":" + zsh_text(command.summary)) + "\n";
  }
  text +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
      "  case $words[2] in\n";
  for (const Command& command : commands()) {
    text += "    " + std::string(command.name) + ") _arguments";
    for (const KnownOption& option : options_of(*program.get_subcommand(command.name))) {
      text += " \\\n      " + quoted(option.name + "[" + zsh_text(option.text) + "]" +
                                     (option.takes_value ? ":value:_files" : ""));
    }
    text += " \\\n      '*:file:_files' ;;\n";
  }
  return text +
         "  esac\n}\nif [[ $funcstack[1] == _headwise ]]; then\n  _headwise \"$@\"\nelse\n"
         "  compdef _headwise headwise\nfi\n";
}

std::string fish_script(const CLI::App& program) {
  std::string text;
  for (const Command& command : commands()) {
    text += "complete -c headwise -n __fish_use_subcommand -f -a " + quoted(command.name) + " -d " +
            quoted(command.summary) + "\n";
    for (const KnownOption& option : options_of(*program.get_subcommand(command.name))) {
      text += "complete -c headwise -n " +
              quoted("__fish_seen_subcommand_from " + std::string(command.name)) + " -l " +
              option.name.substr(2) + (option.takes_value ? " -r" : "") + " -d " +
              quoted(option.text) + "\n";
    }
  }
  return text;
}

}  // namespace

void declare_completion(CLI::App& command) {
  auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "bash, zsh or fish")->required();
  command.callback([&command, shell] {
    const CLI::App& program = *command.get_parent();
    std::string script;
    if (*shell == "bash") {
      script = bash_script(program);
    } else if (*shell == "zsh") {
      script = zsh_script(program);
    } else if (*shell == "fish") {
      script = fish_script(program);
    } else {
      throw UsageError("SHELL: expected bash, zsh or fish, got '" + *shell + "'");
    }
    std::fputs(script.c_str(), stdout);
  });
}

}  // namespace headwise::cli
