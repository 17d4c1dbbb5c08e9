// Holds a call's results against the oracle's, tensor by tensor.
#pragma once

#include <rapidcheck.h>

#include <map>
#include <string>
#include <vector>

#include "property/environment.h"
#include "support/accuracy.h"
#include "support/results.h"

namespace headwise::test_support {

using Views = std::map<std::string, ConstView>;

inline void require(const std::string& complaint) {
  if (!complaint.empty()) RC_FAIL(complaint);
}

// expected(Scalar) computes everything with that scalar and returns it as Named<Scalar>. Returns how
// far off each tensor may be.
template <typename Expected>
std::map<std::string, double> judge(const std::string& prefix, const Expected& expected,
                                    const Views& ours, double factor) {
  constexpr std::uint64_t draw_count = 16;
  const oracle::Named<oracle::Rounded> reference = expected(oracle::Rounded());
  const oracle::Named<float> naive = expected(0.0F);
  std::vector<oracle::Named<oracle::Jittered>> draws;  // made when the first tensor needs them
  std::map<std::string, double> allowed;
  RC_ASSERT(ours.size() == reference.size());
  for (const auto& [name, array] : reference) {
    const Redraw redraw = [&, &quantity = name] {
      for (std::uint64_t seed = draws.size(); seed < draw_count; ++seed) {
        oracle::jitter_dice() = Dice(seed);
        draws.push_back(expected(oracle::Jittered()));
      }
      std::vector<oracle::Array<oracle::Jittered>> arrays;
      for (const auto& draw : draws) arrays.push_back(draw.at(quantity));
      return arrays;
    };
    const Comparison comparison = compare(array, naive.at(name), ours.at(name), factor, redraw);
    require(accuracy_table().add(prefix + name, comparison, factor));
    allowed[name] = factor * comparison.error.yardstick();
  }
  return allowed;
}

}  // namespace headwise::test_support
