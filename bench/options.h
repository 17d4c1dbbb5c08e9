#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "measure.h"

namespace headwise::bench {

struct Options {
  Effort effort;
  std::string filter;  // rows whose id, group or label has it
  std::string json_file;
  std::string svg_file;
  bool quick = false;
  bool list = false;
  bool help = false;
};

class BadOption : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

Options parse_options(const std::vector<std::string>& arguments);  // throws BadOption
std::string help_text();

}  // namespace headwise::bench
