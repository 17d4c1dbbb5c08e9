// Random calls for the numeric contract: half of them as the other suites draw them, half large
// enough to cross every border at which the library cuts its work.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <iosfwd>

#include "support/random_case.h"

namespace headwise::test_support {

struct ContractRecipe : Recipe {
  // Some inputs are NaN, infinite or huge. Rows that attend them are spoilt, and the same
  // rows must be, however the call is computed.
  bool spoilt = false;
};

std::ostream& operator<<(std::ostream& stream, const ContractRecipe& recipe);

// Multiply-adds of a call's products, forward and backward, were nothing masked: of attention, and
// of a layer's projections.
std::int64_t multiply_adds(const Recipe& recipe);
std::int64_t projection_multiply_adds(const Recipe& recipe);

rc::Gen<ContractRecipe> contract_recipes();

// The cases, with what is spoilt planted.
OpCase make_op_case(const ContractRecipe& recipe);
LayerCase make_layer_case(const ContractRecipe& recipe);

}  // namespace headwise::test_support

namespace rc {
template <>
struct Arbitrary<headwise::test_support::ContractRecipe> {
  static Gen<headwise::test_support::ContractRecipe> arbitrary() {
    return headwise::test_support::contract_recipes();
  }
};
}  // namespace rc
