// Checks of what the library throws, and of what it leaves alone when it does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <regex>
#include <string>

#include "headwise/error.h"
#include "headwise/tensor.h"

namespace headwise::test_support {

// what() reads "[function] argument: expected …, got …", with something said in both places.
inline bool has_error_form(const ArgumentError& error) {
  const std::string text = error.what();
  const std::string start = "[" + error.function() + "] " + error.argument() + ": ";
  static const std::regex rest("expected [^\n]+, got [^\n]+");
  return text.rfind(start, 0) == 0 && std::regex_match(text.substr(start.size()), rest);
}

// The call throws an ArgumentError that names this function and this argument.
// `mentions`: a piece of advice that the message must hold.
template <typename Call>
::testing::AssertionResult refuses(const Call& call, const std::string& function,
                                   const std::string& argument, const std::string& mentions = "") {
  try {
    call();
  } catch (const ArgumentError& error) {
    const std::string text = error.what();
    if (error.function() != function || error.argument() != argument) {
      return ::testing::AssertionFailure()
             << "blames [" << error.function() << "] " << error.argument() << ", not [" << function
             << "] " << argument << ": " << text;
    }
    if (!has_error_form(error)) {
      return ::testing::AssertionFailure() << "not of the promised form: " << text;
    }
    if (text.find(mentions) == std::string::npos) {
      return ::testing::AssertionFailure() << "does not mention '" << mentions << "': " << text;
    }
    return ::testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return ::testing::AssertionFailure() << "not an ArgumentError: " << error.what();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

// An output buffer full of a number that no test computes: shows whether an error left it alone.
class SentinelOutput {
 public:
  explicit SentinelOutput(const Shape& shape) : memory_(Tensor::full(shape, kSentinel)) {}

  MutableView view() { return memory_.view(); }
  [[nodiscard]] bool untouched() const {
    const auto values = memory_.values();
    return std::all_of(values.begin(), values.end(), [](float x) { return x == kSentinel; });
  }

 private:
  static constexpr float kSentinel = -12345.5F;
  Tensor memory_;
};

}  // namespace headwise::test_support
