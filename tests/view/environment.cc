// The same cases in every run unless RC_PARAMS asks for others, e.g. "seed=7 max_success=5000".
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace headwise::test_view {
namespace {

constexpr const char* kDefaults[][2] = {{"seed=", "seed=20261117"},
                                        {"max_success=", "max_success=300"}};

// RapidCheck reads the variable when the first property starts.
class ViewEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* given = std::getenv("RC_PARAMS");
    std::string parameters = given == nullptr ? "" : given;
    for (const auto& [name, value] : kDefaults) {
      if (parameters.find(name) == std::string::npos) parameters += std::string(" ") + value;
    }
    setenv("RC_PARAMS", parameters.c_str(), /*overwrite=*/1);
  }
};

// GoogleTest owns and deletes it.
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new ViewEnvironment);

}  // namespace
}  // namespace headwise::test_view
