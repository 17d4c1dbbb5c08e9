// Files that a command is going to write, looked at before the work that fills them.
#pragma once

#include <string>
#include <vector>

namespace headwise::cli {

struct OutputFile {
  std::string option;                   // "--output"
  std::string path;                     // empty: not asked for; "-": standard output
  std::vector<std::string> extensions;  // of the format
};

// Throws UsageError for a name that promises another format and for two outputs in one place,
// FileError if there is no folder for one.
void check_outputs(const std::vector<OutputFile>& outputs);

// Whether one of them is standard output: what the command has to say goes to standard error then.
bool any_to_standard_output(const std::vector<OutputFile>& outputs);

}  // namespace headwise::cli
