#include <utility>

#include "headwise/io.h"

namespace headwise {

FileError::FileError(std::string path, const std::string& problem)
    : std::runtime_error(path + ": " + problem), path_(std::move(path)) {}

}  // namespace headwise
