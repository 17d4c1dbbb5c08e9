#include "headwise/error.h"

#include <cstdio>
#include <utility>

#include "base/check.h"

namespace headwise {

ArgumentError::ArgumentError(std::string function, std::string argument,
                             const std::string& expected, const std::string& got)
    : std::invalid_argument("[" + function + "] " + argument + ": expected " + expected + ", got " +
                            got),
      function_(std::move(function)),
      argument_(std::move(argument)) {}

OutOfMemory::OutOfMemory(std::size_t bytes) noexcept {
  (void)std::snprintf(message_, sizeof message_, "out of memory: %zu bytes were refused", bytes);
}

namespace base {

void fail(std::string_view function, std::string_view argument, std::string_view expected,
          std::string_view got) {
  throw ArgumentError(std::string(function), std::string(argument), std::string(expected),
                      std::string(got));
}

std::string to_string(double value) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace base
}  // namespace headwise
