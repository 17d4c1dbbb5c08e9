// Files of the project that this program was built in.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace headwise::test_support {

// The path of "tests/fuzz/corpus" and the like; nullopt if there is no such thing above the program.
inline std::optional<std::filesystem::path> project_file(const std::string& name) {
  std::filesystem::path place = std::filesystem::canonical("/proc/self/exe");
  while (place.has_relative_path()) {
    place = place.parent_path();
    if (std::filesystem::exists(place / name)) return place / name;
  }
  return std::nullopt;
}

}  // namespace headwise::test_support
