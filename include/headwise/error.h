// What the library throws. It never prints, exits or aborts on the caller's behalf.
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>

namespace headwise {

// The caller's argument does not fit. what() reads "[function] argument: expected …, got …".
class ArgumentError : public std::invalid_argument {
 public:
  ArgumentError(std::string function, std::string argument, const std::string& expected,
                const std::string& got);

  [[nodiscard]] const std::string& function() const noexcept { return function_; }
  [[nodiscard]] const std::string& argument() const noexcept { return argument_; }

 private:
  std::string function_;
  std::string argument_;
};

// The system refused memory. Thrown before any output is touched.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::size_t bytes) noexcept;

  [[nodiscard]] const char* what() const noexcept override { return message_; }

 private:
  char message_[96] = {};  // fixed: building the message must not allocate
};

}  // namespace headwise
