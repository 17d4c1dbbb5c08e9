// Tells a file's format by its content and opens it.
#pragma once

#include <memory>
#include <string>

#include "io/reader.h"

namespace headwise::io {

// The file that a path stands for: a folder stands for the safetensors model in it. Throws FileError.
std::string model_file(const std::string& path);

// Throws FileError or Malformed.
std::unique_ptr<Reader> open_reader(const std::string& path);

}  // namespace headwise::io
