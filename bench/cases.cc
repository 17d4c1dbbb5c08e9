#include "case.h"

namespace headwise::bench {

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_attention_cases(cases);
  add_projection_cases(cases);
  add_layer_cases(cases);
  add_few_query_cases(cases);
  add_scaling_cases(cases);
  return cases;
}

}  // namespace headwise::bench
