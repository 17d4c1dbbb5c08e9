// Scripts for shells, made from the options that every command declares.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "option_checks.h"

namespace headwise::cli {

namespace {

struct KnownOption {
  std::string name;  // "--key-dim"
  std::string text;
  bool takes_value = false;
  bool takes_file = false;
  std::string words = {};  // that the value is one of, with blanks between them
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

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<KnownOption> options_of(const CLI::App& app) {
  std::vector<KnownOption> options;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      options.push_back({"--" + name, option->get_description(), option->get_expected_max() > 0,
                         type_of(*option) == "FILE", joined(words_of(*option))});
    }
  }
  return options;
}

std::string option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const KnownOption& option : options_of(app)) names.push_back(option.name);
  return joined(names);
}

// What stands for itself: words (of `completion`) or files.
std::string argument_words(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) return joined(words_of(*option));
  }
  return "";
}

std::string command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  return joined(names);
}

// A case for every option with a value of its own kind; others take what nobody can guess.
std::string bash_values(const CLI::App& app) {
  std::string text;
  for (const KnownOption& option : options_of(app)) {
    if (!option.takes_value) continue;
    const std::string reply = !option.words.empty() ? "-W " + quoted(option.words)
                              : option.takes_file   ? "-f"
                                                    : "";
    text += "        " + option.name + ") " +
            (reply.empty() ? "" : "_headwise_reply " + reply + "; ") + "return ;;\n";
  }
  return text;
}

std::string bash_script(const CLI::App& program) {
  std::string text =
      // One reply a line: file names have blanks.
      "_headwise_reply() { mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$word\"); }\n"
      "_headwise() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options= words=\n"
      // bash makes three words of --theme=dark
      "  [[ $word == = ]] && word=\n"
      "  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    _headwise_reply -W '" +
      command_names() +
      " help version --help --version'\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n"
      "    help) words='" +
      command_names() + "' ;;\n";
  for (const Command& command : commands()) {
    const CLI::App& app = *program.get_subcommand(command.name);
    text += "    " + std::string(command.name) + ")\n      case $before in\n" + bash_values(app) +
            "      esac\n      options='" + option_names(app) + "' words='" + argument_words(app) +
            "' ;;\n";
  }
  return text +
         "  esac\n"
         "  if [[ $word == -* ]]; then\n"
         "    _headwise_reply -W \"$options\"\n"
         "  elif [[ $words ]]; then\n"
         "    _headwise_reply -W \"$words\"\n"
         "  else\n"
         "    _headwise_reply -f\n"
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

// ":value:(light dark)", ":file:_files", ":value: " for what nobody can guess.
std::string zsh_value(const KnownOption& option) {
  if (!option.takes_value) return "";
  if (!option.words.empty()) return ":value:(" + option.words + ")";
  return option.takes_file ? ":file:_files" : ":value: ";
}

std::string zsh_script(const CLI::App& program) {
  std::string text = "#compdef headwise\n_headwise() {\n  local -a commands=(\n";
  for (const Command& command : commands()) {
    text += "    " + quoted(zsh_text(command.name) + ":" + zsh_text(command.summary)) + "\n";
  }
  text +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n"
      "    compadd -- help version --help --version\n    return\n  fi\n"
      "  case $words[2] in\n    help) _describe command commands ;;\n";
  for (const Command& command : commands()) {
    const CLI::App& app = *program.get_subcommand(command.name);
    text += "    " + std::string(command.name) + ") _arguments";
    for (const KnownOption& option : options_of(app)) {
      text += " \\\n      " +
              quoted(option.name + "[" + zsh_text(option.text) + "]" + zsh_value(option));
    }
    const std::string words = argument_words(app);
    text += words.empty() ? " \\\n      '*:file:_files' ;;\n"
                          : " \\\n      '*:value:(" + words + ")' ;;\n";
  }
  return text +
         "  esac\n}\nif [[ $funcstack[1] == _headwise ]]; then\n  _headwise \"$@\"\nelse\n"
         "  compdef _headwise headwise\nfi\n";
}

// -r asks for a value, -f keeps files out of what is offered, -a offers words.
std::string fish_value(const KnownOption& option) {
  if (!option.takes_value) return "";
  if (!option.words.empty()) return " -x -a " + quoted(option.words);
  return option.takes_file ? " -r -F" : " -x";
}

std::string fish_script(const CLI::App& program) {
  const std::string first = "complete -c headwise -n __fish_use_subcommand";
  std::string text = first + " -f -a 'help version'\n";
  for (const KnownOption& option : options_of(program)) {
    text += first + " -l " + option.name.substr(2) + " -d " + quoted(option.text) + "\n";
  }
  text += "complete -c headwise -n '__fish_seen_subcommand_from help' -f -a " +
          quoted(command_names()) + "\n";
  for (const Command& command : commands()) {
    const CLI::App& app = *program.get_subcommand(command.name);
    const std::string seen = "complete -c headwise -n " +
                             quoted("__fish_seen_subcommand_from " + std::string(command.name));
    text += first + " -f -a " + quoted(command.name) + " -d " + quoted(command.summary) + "\n";
    if (const std::string words = argument_words(app); !words.empty()) {
      text += seen + " -f -a " + quoted(words) + "\n";
    }
    for (const KnownOption& option : options_of(app)) {
      text += seen + " -l " + option.name.substr(2) + fish_value(option) + " -d " +
              quoted(option.text) + "\n";
    }
  }
  return text;
}

}  // namespace

void declare_completion(CLI::App& command) {
  auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  command.callback([&command, shell] {
    const CLI::App& program = *command.get_parent();
    const std::string script = *shell == "bash"  ? bash_script(program)
                               : *shell == "zsh" ? zsh_script(program)
                                                 : fish_script(program);
    std::fputs(script.c_str(), stdout);
  });
}

}  // namespace headwise::cli
