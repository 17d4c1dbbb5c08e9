#pragma once

#include <stdexcept>

namespace headwise::cli {

// The command line asks for something that cannot be (exit code 2). One line; may end in a hint.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace headwise::cli
