// One head, ever longer: the time of a pair stays, and the scratch memory grows with S, not S².
#include "attention_rows.h"

namespace headwise::bench {

void add_scaling_cases(std::vector<Case>& cases) {
  for (std::int64_t length = 128; length <= 16384; length *= 2) {
    const std::string text = std::to_string(length);
    cases.push_back(
        forward_row({.id = "scaling-" + text, .group = kScalingGroup, .label = "S " + text},
                    self_attention(1, 1, length, 64)));
  }
}

}  // namespace headwise::bench
