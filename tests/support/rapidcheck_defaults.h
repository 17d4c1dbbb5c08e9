// The same cases in every run unless RC_PARAMS asks for others, e.g. "seed=7 max_success=5000".
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace headwise::test_support {

// RapidCheck reads the variable when the first property starts.
class RapidCheckDefaults : public ::testing::Environment {
 public:
  RapidCheckDefaults(int seed, int cases)
      : defaults_{{"seed=", std::to_string(seed)}, {"max_success=", std::to_string(cases)}} {}

  void SetUp() override {
    const char* given = std::getenv("RC_PARAMS");
    std::string parameters = given == nullptr ? "" : given;
    for (const auto& [name, value] : defaults_) {
      if (parameters.find(name) != std::string::npos) continue;
      if (!parameters.empty()) parameters += ' ';
      parameters += name + value;
    }
    setenv("RC_PARAMS", parameters.c_str(), /*overwrite=*/1);
  }

 private:
  std::pair<std::string, std::string> defaults_[2];
};

}  // namespace headwise::test_support
