#include "parity/parity.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

namespace headwise::test_support {
namespace {

// Of |ours − theirs| / (1 + |theirs|). Both sides compute in float32 and round in different orders,
// so neither is exact: numbers here are sums of up to a few hundred products of size about 1, a few
// of them in a row. Seen: 2.5e-6, where Keras' three backends differ by 2.1e-6 among themselves.
constexpr double kTolerance = 5e-6;

// Prints the largest difference per test suite when all tests of the program have run.
class Differences : public ::testing::Environment {
 public:
  void record(double difference) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    Entry& entry = entries_[test == nullptr ? "" : test->test_suite_name()];
    entry.largest = std::max(entry.largest, difference);
    ++entry.comparisons;
  }

  void TearDown() override {
    for (const auto& [suite, entry] : entries_) {
      std::printf("parity %s: largest difference %.1e of %.0e allowed, %d tensors compared\n",
                  suite.c_str(), entry.largest, kTolerance, entry.comparisons);
    }
  }

 private:
  struct Entry {
    double largest = 0;
    int comparisons = 0;
  };
  std::map<std::string, Entry> entries_;
};

// Owned by GoogleTest, which deletes it.
Differences& differences() {
  static auto* const instance = new Differences;
  return *instance;
}
const ::testing::Environment* const kRegistered =
    ::testing::AddGlobalTestEnvironment(&differences());

std::string golden_path(const std::string& file) {
  return std::string(HEADWISE_GOLDEN_DIR) + "/" + file;
}

// Read once; tests take copies of their cases.
const GoldenCases& cases_of(const std::string& framework) {
  static std::map<std::string, GoldenCases> files;
  const auto found = files.find(framework);
  if (found != files.end()) return found->second;
  return files[framework] = read_golden(golden_path(framework + ".safetensors"));
}

double difference(float ours, float theirs) {
  if (ours == theirs) return 0;  // infinities too
  const double size = 1 + std::abs(static_cast<double>(theirs));
  return std::abs(static_cast<double>(ours) - static_cast<double>(theirs)) / size;
}

ConstView maybe_swapped(const Tensor& tensor, bool swap) {
  return swap ? tensor.view().permuted({1, 0, 2}) : tensor.view();
}

WeightsRequest requested_weights(GoldenCase& golden, std::int64_t rank_per_head) {
  if (!golden.has("attention")) return no_weights();
  // Averaged weights have no head axis.
  const bool averaged = golden.floats("attention").rank() < rank_per_head;
  return averaged ? averaged_weights() : all_weights();
}

void expect_weight_gradients(GoldenCase& golden, const LayerUnderTest& layer,
                             const AttentionWeights& ours) {
  const AttentionWeights theirs = layer.read(layer.config, golden.group("gradient/weight/"));
  for (const WeightField& field : weight_fields()) {
    if (!field.present(layer.config)) continue;
    expect_close(std::string("gradient of ") + field.name, ours.*field.tensor,
                 theirs.*field.tensor);
  }
}

void expect_bias_gradients(GoldenCase& golden, const std::vector<std::string>& names,
                           const std::vector<Tensor>& ours) {
  ASSERT_EQ(ours.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Tensor& theirs = golden.floats("gradient/" + names[i]);
    // The framework may fold axes of its mask together; the order of the numbers is the same.
    expect_close("gradient of " + names[i], ours[i].reshaped(theirs.shape()), theirs);
  }
}

// Rows (b,t) of a (B,T,…) or (T,…) tensor, as (rows, numbers of a row).
Tensor as_rows(const Tensor& tensor, std::int64_t rows) {
  return tensor.reshaped({rows, tensor.size() / rows});
}

// Rows that attend nothing. Ours are exactly `empty` (the output bias, or zeros); theirs are NaN,
// or the mean over all values, which `uniform` holds: attention with all scores equal.
void expect_empty_rows_differ(GoldenCase& golden, const Tensor& ours, const Tensor& uniform,
                              const Tensor& empty) {
  const auto kind = golden.option<std::string>("differs");
  const BoolTensor& differing = golden.bools("differing_rows");
  const std::int64_t rows = differing.size();
  const Tensor our_rows = as_rows(ours, rows);
  const Tensor their_rows = as_rows(golden.floats("output"), rows);
  const Tensor uniform_rows = as_rows(uniform, rows);
  int count = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const ConstView our_row = our_rows.view().at(0, row);
    const ConstView their_row = their_rows.view().at(0, row);
    if (!differing.data()[row]) {
      expect_close("output row that is not empty", our_row, their_row);
      continue;
    }
    ++count;
    for (std::int64_t i = 0; i < our_row.size(); ++i) {
      EXPECT_EQ(our_row(i), empty.data()[i % empty.size()]) << "empty row " << row;
      EXPECT_EQ(std::isnan(their_row(i)), kind == "nan") << "row " << row;
    }
    if (kind == "mean_of_value") {
      expect_close("their empty row, the mean of V", uniform_rows.view().at(0, row), their_row);
    }
  }
  EXPECT_GT(count, 0) << "a case of empty rows without one";
  say_difference(kind == "nan" ? "an empty row is NaN there, zero heads here"
                               : "an empty row is the mean of V there, zero heads here");
}

// A NaN in a value that a mask hides. Theirs: NaN in rows that never attend it. Ours: as if it
// were any other number.
void expect_no_leak(GoldenCase& golden, const Tensor& ours) {
  const auto theirs = golden.floats("output").values();
  EXPECT_TRUE(std::any_of(theirs.begin(), theirs.end(), [](float x) { return std::isnan(x); }));
  expect_close("output beside a hidden NaN", ours, golden.floats("clean_output"));
  say_difference("a NaN behind a mask reaches the output there, not here");
}

// Asserts a recorded difference; false if the case has none and is to be compared as usual.
template <typename Uniform>
bool expect_difference(GoldenCase& golden, const Tensor& ours, const Tensor& empty,
                       Uniform uniform) {
  if (!golden.has_option("differs")) return false;
  if (golden.option<std::string>("differs") == "leak") {
    expect_no_leak(golden, ours);
  } else {
    expect_empty_rows_differ(golden, ours, uniform(), empty);
  }
  return true;
}

// With a query projection of zeros all scores are equal.
Tensor uniform_layer_output(const LayerUnderTest& layer, AttentionWeights weights,
                            const AttentionInputs& inputs) {
  weights.query_kernel = Tensor(weights.query_kernel.shape());
  weights.query_bias = Tensor(weights.query_bias.shape());
  return MultiHeadAttention(layer.config, std::move(weights)).forward(inputs).output;
}

}  // namespace

void expect_layer_parity(GoldenCase& golden, const LayerUnderTest& layer) {
  const AttentionWeights weights = layer.read(layer.config, golden.group("weight/"));
  const MultiHeadAttention attention_layer(layer.config, weights);
  const bool swap = layer.sequence_first;
  const AttentionInputs inputs{.query = maybe_swapped(golden.floats("query"), swap),
                               .key = maybe_swapped(golden.floats("key"), swap),
                               .value = maybe_swapped(golden.floats("value"), swap)};
  ForwardOptions options = layer.options;
  options.weights = requested_weights(golden, inputs.query.rank() + 1);
  options.save_for_backward = golden.has("cotangent");
  const AttentionResult result = attention_layer.forward(inputs, options);

  const Tensor empty = weights.output_bias.size() > 0 ? weights.output_bias : Tensor(Shape{1});
  if (expect_difference(golden, result.output, empty,
                        [&] { return uniform_layer_output(layer, weights, inputs); })) {
    return;
  }
  expect_close("output", result.output, maybe_swapped(golden.floats("output"), swap));
  if (golden.has("attention")) {
    expect_close("attention weights", result.weights, golden.floats("attention"));
  }
  if (!golden.has("cotangent")) return;
  const LayerGradients ours =
      attention_layer.backward(inputs, result, maybe_swapped(golden.floats("cotangent"), swap),
                               options, {.bias_gradient = !layer.biases.empty()});
  for (const auto& [name, tensor] : {std::pair("query", &ours.query), std::pair("key", &ours.key),
                                     std::pair("value", &ours.value)}) {
    const Tensor& theirs = golden.floats(std::string("gradient/") + name);
    expect_close(std::string("gradient of ") + name, *tensor, maybe_swapped(theirs, swap));
  }
  expect_weight_gradients(golden, layer, ours.weights);
  expect_bias_gradients(golden, layer.biases, ours.bias);
}

void expect_operator_parity(GoldenCase& golden, const OperatorUnderTest& operation,
                            const HeadInputs& inputs) {
  AttentionOptions options = operation.options;
  options.weights = requested_weights(golden, inputs.query.rank());
  const AttentionResult result = attention(inputs.query, inputs.key, inputs.value, options);

  const auto uniform = [&] {
    return attention(Tensor(inputs.query.shape()), inputs.key, inputs.value,
                     {.layout = options.layout})
        .output;
  };
  if (expect_difference(golden, result.output, Tensor(Shape{1}), uniform)) return;
  const Tensor& theirs = golden.floats("output");
  // A framework that takes heads folded into the features gives them back folded.
  expect_close("output", result.output.reshaped(theirs.shape()), theirs);
  if (golden.has("attention")) {
    expect_close("attention weights", result.weights, golden.floats("attention"));
  }
  if (!golden.has("cotangent")) return;
  const AttentionGradients ours = attention_backward(
      {.query = inputs.query, .key = inputs.key, .value = inputs.value}, result,
      golden.floats("cotangent"), options, {.bias_gradient = !operation.biases.empty()});
  expect_close("gradient of query", ours.query, golden.floats("gradient/query"));
  expect_close("gradient of key", ours.key, golden.floats("gradient/key"));
  expect_close("gradient of value", ours.value, golden.floats("gradient/value"));
  expect_bias_gradients(golden, operation.biases, ours.bias);
}

void expect_close(const std::string& what, const ConstView& ours, const ConstView& theirs) {
  ASSERT_EQ(ours.shape(), theirs.shape())
      << what << ": " << ours.shape().to_string() << ", theirs " << theirs.shape().to_string();
  const Tensor a = Tensor::copy_of(ours);
  const Tensor b = Tensor::copy_of(theirs);
  double largest = 0;
  std::int64_t worst = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double error = difference(a.data()[i], b.data()[i]);
    if (error <= largest) continue;  // a NaN is not, and stays the worst
    largest = error;
    worst = i;
    if (std::isnan(error)) break;
  }
  differences().record(std::isnan(largest) ? HUGE_VAL : largest);
  EXPECT_TRUE(largest <= kTolerance)
      << what << " " << a.shape().to_string() << ": element " << worst << " is " << a.data()[worst]
      << ", theirs is " << b.data()[worst];
}

BoolTensor inverted(const BoolTensor& mask) {
  BoolTensor result(mask.shape());
  std::transform(mask.values().begin(), mask.values().end(), result.values().begin(),
                 [](bool x) { return !x; });
  return result;
}

void say_difference(const std::string& what) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::printf("differs on purpose, %s.%s: %s\n", test->test_suite_name(), test->name(),
              what.c_str());
  ::testing::Test::RecordProperty("differs_on_purpose", what);
}

std::vector<std::string> golden_case_names(const std::string& framework) {
  std::vector<std::string> names;
  try {
    for (const auto& entry : cases_of(framework)) names.push_back(entry.first);
  } catch (const std::exception&) {
    return {};
  }
  return names;
}

void expect_complete(const std::string& framework) {
  const nlohmann::json versions =
      nlohmann::json::parse(read_whole_file(golden_path("versions.json")));
  EXPECT_GT(cases_of(framework).size(), 0U) << "a golden file without cases";
  EXPECT_EQ(cases_of(framework).size(), versions.at("cases").at(framework).get<std::size_t>());
  EXPECT_EQ(cases_of(framework).size(), golden_case_names(framework).size());
}

void with_case(const std::string& framework, const std::string& name,
               const std::function<void(GoldenCase&)>& body) {
  GoldenCase golden = cases_of(framework).at(name);
  body(golden);
  for (const std::string& left : golden.unused()) ADD_FAILURE() << "the test ignores " << left;
}

}  // namespace headwise::test_support
