#include "outputs.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "headwise/io.h"
#include "text_file.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

namespace fs = std::filesystem;

// A pipe or a device takes any format.
bool is_device(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void check_name(const OutputFile& output) {
  const bool fits = std::any_of(
      output.extensions.begin(), output.extensions.end(),
      [&](const std::string& extension) { return has_extension(output.path, extension); });
  if (fits) return;
  std::string names;
  for (const std::string& extension : output.extensions) {
    names += (names.empty() ? "" : " or ") + extension;
  }
  throw UsageError(output.option + ": expected a name that ends in " + names + ", got '" +
                   output.path + "'");
}

void check_folder(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (folder.empty() || fs::exists(folder, error)) return;
  throw FileError(path, "no folder " + folder.string());
}

std::string place_of(const std::string& path) {
  std::error_code error;
  const fs::path place = fs::weakly_canonical(fs::absolute(path), error);
  return error ? path : place.string();
}

}  // namespace

void check_outputs(const std::vector<OutputFile>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputFile& output = outputs[i];
    if (output.path.empty()) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (outputs[j].path.empty() || is_device(output.path)) continue;
      const bool same = output.path == "-" || outputs[j].path == "-"
                            ? output.path == outputs[j].path
                            : place_of(output.path) == place_of(outputs[j].path);
      if (same) {
        throw UsageError(outputs[j].option + " and " + output.option +
                         ": expected two places, got '" + output.path + "' for both");
      }
    }
    if (output.path == "-" || is_device(output.path)) continue;
    check_name(output);
    check_folder(output.path);
  }
}

bool any_to_standard_output(const std::vector<OutputFile>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(),
                     [](const OutputFile& output) { return output.path == "-"; });
}

}  // namespace headwise::cli
