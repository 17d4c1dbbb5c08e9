#include "options.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <thread>

namespace headwise::bench {

namespace {

int positive_number(const std::string& option, const std::string& text) {
  constexpr int kMost = 1024;
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > kMost) {
    throw BadOption(option + ": expected a number from 1 to 1024, got '" + text + "'");
  }
  return value;
}

std::vector<int> thread_counts(const std::string& text) {
  std::vector<int> counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const int count = positive_number("--threads", text.substr(begin, end - begin));
    if (std::find(counts.begin(), counts.end(), count) == counts.end()) counts.push_back(count);
    begin = end + 1;
  }
  return counts;
}

Effort quick_effort() {
  return {.rounds = 8, .sample_seconds = 0.003, .case_seconds = 0.1, .least_samples = 1};
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  std::optional<std::vector<int>> threads;
  std::optional<int> rounds;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 >= arguments.size() || arguments[i + 1].empty()) {
        throw BadOption(name + ": a value is missing");
      }
      return arguments[++i];
    };
    if (name == "--filter") {
      options.filter = value();
    } else if (name == "--threads") {
      threads = thread_counts(value());
    } else if (name == "--rounds") {
      rounds = positive_number(name, value());
    } else if (name == "--json") {
      options.json_file = value();
    } else if (name == "--svg") {
      options.svg_file = value();
    } else if (name == "--quick") {
      options.quick = true;
    } else if (name == "--list") {
      options.list = true;
    } else if (name == "--help" || name == "-h") {
      options.help = true;
    } else {
      throw BadOption("unknown option '" + name + "'; --help lists them");
    }
  }
  if (options.quick) options.effort = quick_effort();
  if (std::thread::hardware_concurrency() == 1) options.effort.threads = {1};
  if (threads) options.effort.threads = *threads;
  if (rounds) options.effort.rounds = *rounds;
  return options;
}

std::string help_text() {
  return "headwise_bench: how much of what this machine can do the library does\n"
         "\n"
         "  --filter TEXT    only rows whose id, group or label contains TEXT\n"
         "  --threads 1,2    thread counts to measure (1,2)\n"
         "  --rounds N       visits to every row (40; slow rows get fewer)\n"
         "  --quick          a look in about a minute: 8 rounds, without the heaviest rows\n"
         "  --json FILE      write everything measured\n"
         "  --svg FILE       draw the shares\n"
         "  --list           print the rows and run nothing\n"
         "  --help           print this\n"
         "\n"
         "HEADWISE_TARGET=avx2 (avx512, sse4, …) forces the instruction set.\n";
}

}  // namespace headwise::bench
