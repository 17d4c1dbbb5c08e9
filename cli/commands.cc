#include "commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "headwise/version.h"
#include "help.h"
#include "option_checks.h"
#include "parse_problem.h"
#include "terminal/terminal.h"
#include "usage_error.h"

namespace headwise::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"run",
       "run a layer on real or random input",
       "Runs one multi-head attention layer: its weights from a file or random, its input from npy "
       "files or random. Prints shapes, the weight table, the time and its share of this machine's "
       "peak, and writes what you ask for.",
       {"headwise run --shape 32,128,512 --heads 8 --key-dim 64 --value-dim 32",
        "headwise run --weights model.safetensors --layer encoder.layer.0 --input x.npy --output "
        "y.npy",
        "headwise run --weights model.keras --input x.npy --causal --attention-weights w.npy",
        "cat x.npy | headwise run --weights model.safetensors --input - --output - > y.npy"},
       declare_run},
      {"plan",
       "what num_heads, key_dim and value_dim cost and change",
       "Counts a layer's parameters, FLOPs, memory and key/value cache for given shapes, predicts "
       "its time from this machine's measured peak and bandwidth, and says what each size changes.",
       {"headwise plan --shape 32,128,512 --heads 8 --key-dim 64",
        "headwise plan --shape 32,128,512 --compare 4x128,8x64,16x32,8x64v32 --measure",
        "headwise plan --shape 1,2048,4096 --heads 32 --kv-heads 8 --key-dim 128 --causal --json"},
       declare_plan},
      {"inspect",
       "what a weights file holds and what its heads do",
       "Finds every attention layer in a file and looks at every head: singular values of W_q·W_kᵀ "
       "and W_v·W_o, effective ranks, the key_dim that would do, heads that look alike, dead "
       "heads.",
       {"headwise inspect model.safetensors", "headwise inspect model.keras --plot spectra.png",
        "headwise inspect bert-folder --layer 0 --json"},
       declare_inspect},
      {"convert",
       "the same layer in another library's layout",
       "Writes the attention layers of a file as another library stores them, and checks that they "
       "compute the same before the file is put in place. Optionally with smaller heads, or with a "
       "linear map folded in.",
       {"headwise convert model.keras model.safetensors --to torch",
        "headwise convert bert.safetensors layer0.keras --to keras --layer encoder.layer.0",
        "headwise convert model.safetensors small.safetensors --to headwise --key-dim 16"},
       declare_convert},
      {"view",
       "see where heads look: in the terminal, as PNG, as a page",
       "Shows attention weights, of a file or of a run: a heat map in the terminal, small "
       "multiples "
       "of all heads as a PNG, or one self-contained HTML page to explore.",
       {"headwise view weights.npy --tokens sentence.txt",
        "headwise view --weights model.safetensors --layer 0 --input x.npy --html heads.html",
        "headwise view weights.npz --png heads.png --theme dark"},
       declare_view},
      {"completion",
       "a script that completes commands and options in your shell",
       "Prints a completion script for bash, zsh or fish.",
       {"source <(headwise completion bash)", "headwise completion zsh > \"${fpath[1]}/_headwise\"",
        "headwise completion fish > ~/.config/fish/completions/headwise.fish"},
       declare_completion},
  };
  return all;
}

namespace {

std::string version_text() {
  return "headwise " + std::to_string(HEADWISE_VERSION_MAJOR) + "." +
         std::to_string(HEADWISE_VERSION_MINOR) + "." + std::to_string(HEADWISE_VERSION_PATCH);
}

// "headwise help plan", as people ask whose fingers know it from other programs; and docs/cli.md for
// `make reference`. The group "" keeps them out of the list of commands.
void declare_words(CLI::App& program) {
  CLI::App* help = program.add_subcommand("help", "what a command does")->group("");
  auto name = std::make_shared<std::string>();
  help->add_option("COMMAND", *name, "one of the commands");
  help->callback([&program, name] {
    const auto& all = commands();
    const bool known = std::any_of(all.begin(), all.end(),
                                   [&](const Command& command) { return *name == command.name; });
    if (!known && !name->empty()) throw UsageError(unknown_command(*name));
    const CLI::App* command = known ? program.get_subcommand(*name) : &program;
    std::fputs(help_text(*command, terminal::standard_output().width).c_str(), stdout);
  });
  program.add_subcommand("version", "print the version")->group("")->callback([] {
    std::printf("%s\n", version_text().c_str());
  });
  CLI::App* reference = program.add_subcommand("reference", "print docs/cli.md")->group("");
  reference->callback([&program] { std::fputs(reference_markdown(program).c_str(), stdout); });
}

}  // namespace

void declare_program(CLI::App& program) {
  program.description(
      "Headwise: multi-head attention for the CPU. Plan, run, inspect, convert and see attention.");
  program.set_help_flag("-h,--help", "print this");
  program.set_version_flag("--version", version_text())->description("print the version");
  for (const Command& entry : commands()) {
    CLI::App* command = program.add_subcommand(entry.name, entry.summary);
    command->set_help_flag("-h,--help", "print this");
    entry.declare(*command);
    refuse_empty_values(*command, "--name");
  }
  declare_words(program);
  program.require_subcommand(0, 1);  // a file may be called "run"
}

}  // namespace headwise::cli
