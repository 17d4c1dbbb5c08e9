#include "active_target.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "vector_loops.h"

namespace headwise::bench {

std::string active_target() {
  std::vector<std::string> names;
  for (const VectorLoops& loops : supported_loops()) names.emplace_back(loops.target);
  const char* forced = std::getenv("HEADWISE_TARGET");
  if (forced == nullptr || *forced == '\0') return names.front();
  if (std::find(names.begin(), names.end(), forced) != names.end()) return forced;
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  throw std::invalid_argument("HEADWISE_TARGET=" + std::string(forced) + ": this CPU offers " +
                              known);
}

}  // namespace headwise::bench
