// What a parser throws that does not know which file it reads. TensorFile turns it into a FileError
// with the file's path in front.
#pragma once

#include <stdexcept>
#include <string>

namespace headwise::io {

class Malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void malformed(const std::string& problem) { throw Malformed(problem); }

}  // namespace headwise::io
