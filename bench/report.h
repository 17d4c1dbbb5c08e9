// The three forms of the result: a table, JSON, a picture.
#pragma once

#include <string>
#include <vector>

#include "headwise/machine.h"
#include "summary.h"

namespace headwise::bench {

std::string machine_text(const Machine& machine);
std::string table_text(const std::vector<Summary>& summaries);
std::string json_text(const Machine& machine, const std::vector<Summary>& summaries);
std::string svg_text(const Machine& machine, const std::vector<Summary>& summaries);

}  // namespace headwise::bench
