// Measures the library against the machine: FMA peak, read speed, and OpenBLAS for projections.
//
//   options → cases → per group: rounds of (yardstick, row, yardstick) → summaries → table, JSON, SVG
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "blas.h"
#include "case.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/machine.h"
#include "measure.h"
#include "options.h"
#include "progress.h"
#include "report.h"
#include "summary.h"

namespace headwise::bench {

namespace {

// Too long for a quick look, unless a floor hangs on it.
bool heavy(const Case& row) {
  constexpr double kManyFlops = 40e9;
  return row.flops > kManyFlops && row.floor.one_thread <= 0.0;
}

bool has_text(const Case& row, const std::string& text) {
  return row.id.find(text) != std::string::npos || row.group.find(text) != std::string::npos ||
         row.label.find(text) != std::string::npos;
}

std::vector<Case> chosen_cases(const Options& options) {
  const std::vector<Case> all = all_cases();
  const auto wanted = [&](const Case& row) {
    if (options.quick && heavy(row)) return false;
    return options.filter.empty() || has_text(row, options.filter);
  };
  std::vector<Case> chosen;
  for (const Case& row : all) {
    // What a wanted row is compared with comes along.
    const bool needed = std::any_of(all.begin(), all.end(), [&](const Case& other) {
      return other.against.id == row.id && wanted(other);
    });
    if (wanted(row) || needed) chosen.push_back(row);
  }
  return chosen;
}

std::vector<std::span<const Case>> groups_of(const std::vector<Case>& cases) {
  std::vector<std::span<const Case>> groups;
  for (auto begin = cases.begin(); begin != cases.end();) {
    const auto end = std::find_if(begin, cases.end(),
                                  [&](const Case& row) { return row.group != begin->group; });
    groups.emplace_back(begin, end);
    begin = end;
  }
  return groups;
}

std::size_t largest_buffer(const std::vector<Case>& cases) {
  auto largest = largest_read_bytes();
  for (const Case& row : cases) {
    if (row.yardstick == Yardstick::ReadSpeed) {
      largest = std::max(largest, static_cast<std::size_t>(row.bytes));
    }
  }
  return largest;
}

void print_list(const std::vector<Case>& cases) {
  for (const Case& row : cases) {
    std::printf("%-28s %s: %s\n", row.id.c_str(), row.group.c_str(), row.label.c_str());
  }
}

void write_file(const std::string& name, const std::string& text) {
  std::ofstream file(name, std::ios::binary);
  file << text << std::flush;
  if (!file) throw std::runtime_error("cannot write " + name);
}

// Results are new tensors; a program that computes for long keeps their memory between calls, and
// so does this one: otherwise the kernel's clearing of pages would be timed.
void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

int run(const Options& options, const std::string& target) {
  const std::vector<Case> cases = chosen_cases(options);
  if (options.list) {
    print_list(cases);
    return 0;
  }
  if (cases.empty()) throw BadOption("--filter " + options.filter + ": no row has it; see --list");
  keep_freed_memory();
  const Yardsticks yardsticks(target, largest_buffer(cases));
  const Machine machine = describe_machine(target, options.effort.threads, yardsticks);
  std::cout << machine_text(machine) << std::flush;

  const std::vector<std::span<const Case>> groups = groups_of(cases);
  std::vector<Measurement> measurements;
  {
    Progress progress(static_cast<int>(groups.size()));
    for (const std::span<const Case> group : groups) {
      for (Measurement& m : measure_group(group, options.effort, yardsticks, progress)) {
        measurements.push_back(std::move(m));
      }
    }
  }
  const std::vector<Summary> summaries = summarise(measurements, machine);
  std::cout << table_text(summaries) << std::flush;
  if (!options.json_file.empty()) write_file(options.json_file, json_text(machine, summaries));
  if (!options.svg_file.empty()) write_file(options.svg_file, svg_text(machine, summaries));
  // A missed floor is a fact of the report; only a row that could not run is a failure.
  return std::any_of(measurements.begin(), measurements.end(),
                     [](const Measurement& m) { return !m.failure.empty(); })
             ? 1
             : 0;
}

}  // namespace

}  // namespace headwise::bench

int main(int count, char** arguments) {
  namespace bench = headwise::bench;
  try {
    const bench::Options options = bench::parse_options({arguments + 1, arguments + count});
    if (options.help) {
      std::cout << bench::help_text();
      return 0;
    }
    const std::string target(headwise::default_target());
    bench::restart_with_blas_core_type(target, arguments);
    return bench::run(options, target);
  } catch (const bench::BadOption& error) {
    std::cerr << "headwise_bench: " << error.what() << "\n";
    return 2;
  } catch (const headwise::ArgumentError& error) {  // HEADWISE_TARGET
    std::cerr << "headwise_bench: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "headwise_bench: " << error.what() << "\n";
    return 1;
  }
}
