#include "property/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace headwise::test_support {

AccuracyTable& accuracy_table() {
  static AccuracyTable table;
  return table;
}

namespace {

// The same cases in every run unless RC_PARAMS asks for others, e.g. "seed=7 max_success=5000".
// RapidCheck reads the variable when the first property starts.
constexpr const char* kDefaults[][2] = {{"seed=", "seed=20260117"},
                                        {"max_success=", "max_success=400"}};

class PropertyEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* given = std::getenv("RC_PARAMS");
    std::string parameters = given == nullptr ? "" : given;
    for (const auto& [name, value] : kDefaults) {
      if (parameters.find(name) != std::string::npos) continue;
      if (!parameters.empty()) parameters += ' ';
      parameters += value;
    }
    setenv("RC_PARAMS", parameters.c_str(), /*overwrite=*/1);
    std::cout << "RC_PARAMS=\"" << parameters << "\"\n";
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
