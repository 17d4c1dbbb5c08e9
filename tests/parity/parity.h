// What every parity test shares: run a layer or the bare operation on a framework's numbers, and
// compare outputs, attention weights and gradients with what the framework computed.
//
//   golden case ─► the framework's test builds config, masks, biases ─► expect_…_parity
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "headwise/headwise.h"
#include "support/golden.h"

namespace headwise::test_support {

using WeightsReader = AttentionWeights (*)(const AttentionConfig&, const TensorMap&);

struct LayerUnderTest {
  AttentionConfig config;
  // One of presets::…_weights. The mapping is linear and moves numbers only, so gradients in the
  // framework's names and shapes go through it as well.
  WeightsReader read;
  ForwardOptions options = {};
  bool sequence_first = false;           // inputs and outputs are (T,B,D)
  std::vector<std::string> biases = {};  // the golden names of options.bias
};

struct OperatorUnderTest {
  AttentionOptions options;
  std::vector<std::string> biases = {};
};

struct HeadInputs {
  Tensor query;
  Tensor key;
  Tensor value;
};

// The attention weights that the file has, the output, and every gradient. Cases that record a
// difference on purpose ("differs", see parity.cc) assert the difference instead.
void expect_layer_parity(GoldenCase& golden, const LayerUnderTest& layer);
void expect_operator_parity(GoldenCase& golden, const OperatorUnderTest& operation,
                            const HeadInputs& inputs);

// `ours` within the tolerance of `theirs`, shape included.
void expect_close(const std::string& what, const ConstView& ours, const ConstView& theirs);

// Masks as Headwise has them: true = attend.
BoolTensor inverted(const BoolTensor& mask);

// "differs on purpose: …", printed and recorded with the test.
void say_difference(const std::string& what);

// Names of the cases of tests/golden/<framework>.safetensors, for a parameterised test: every case
// in the file is a test. Empty if the file cannot be read, since listing tests must not throw;
// expect_complete says why.
std::vector<std::string> golden_case_names(const std::string& framework);

// The file can be read and has as many cases, not none, as versions.json says it was written with.
void expect_complete(const std::string& framework);

// Runs the body on a case and insists that every tensor and option of the case was used.
void with_case(const std::string& framework, const std::string& name,
               const std::function<void(GoldenCase&)>& body);

// Test names: those of the cases.
inline std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace headwise::test_support
