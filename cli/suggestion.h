// "did you mean --key-dim?"
#pragma once

#include <string>
#include <vector>

namespace headwise::cli {

// The candidate nearest to what was typed, or "" if none is near.
std::string nearest(const std::string& typed, const std::vector<std::string>& candidates);

}  // namespace headwise::cli
