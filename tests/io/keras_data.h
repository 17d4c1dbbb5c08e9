// Files that were made by make_keras_files.py and make_hostile_hdf5.py.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "io/project_file.h"

namespace headwise::test_support {

inline std::filesystem::path data_folder() { return project_file("tests/io/data").value(); }

inline std::string data_file(const std::string& name) { return (data_folder() / name).string(); }

inline std::string data_bytes(const std::string& name) {
  std::ifstream file(data_file(name), std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + data_file(name));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace headwise::test_support
