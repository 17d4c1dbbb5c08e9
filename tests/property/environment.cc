#include "property/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "support/rapidcheck_defaults.h"

namespace headwise::test_support {

AccuracyTable& accuracy_table() {
  static AccuracyTable table;
  return table;
}

namespace {

class PropertyEnvironment : public RapidCheckDefaults {
 public:
  PropertyEnvironment() : RapidCheckDefaults(20260117, 400) {}

  void SetUp() override {
    RapidCheckDefaults::SetUp();
    std::cout << "RC_PARAMS=\"" << std::getenv("RC_PARAMS") << "\"\n";
  }

  // Single tensors are allowed luck, up or down; half of many are not, and need no floor.
  void TearDown() override {
    const AccuracyTable& table = accuracy_table();
    table.print(std::cout);
    for (const std::string& quantity : table.quantities()) {
      EXPECT_LE(table.median_ratio(quantity), table.factor(quantity)) << quantity;
    }
  }
};

// GoogleTest owns and deletes it.
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new PropertyEnvironment);

}  // namespace
}  // namespace headwise::test_support
