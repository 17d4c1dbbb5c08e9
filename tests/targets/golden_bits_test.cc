// The same bits on every CPU: each tensor that a fixed list of cases computes is hashed and compared
// with golden_bits.txt. This program runs natively and, cross-compiled, under an emulator; one file
// serves both, and that is the proof. It needs GoogleTest only, so it builds for any architecture.
//
// After a change that is meant to change bits:
//   HEADWISE_WRITE_GOLDEN_BITS=tests/targets/golden_bits.txt build/dev/tests/headwise_targets_test
#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "headwise/headwise.h"

namespace headwise {
namespace {

// ---- Hashes ------------------------------------------------------------------------------------

struct NamedHash {
  std::string tensor;  // "query_gradient"
  std::string hash;    // 16 hexadecimal digits
};

// FNV-1a, 64 bits.
std::string hash_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3U;
  }
  std::string digits(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) digits[i] = "0123456789abcdef"[hash & 15U];
  return digits;
}

class Hashes {
 public:
  template <typename T>
  void add(const std::string& name, const BasicTensor<T>& tensor) {
    if (tensor.size() == 0) return;  // not asked for
    list_.push_back({name, hash_of(std::as_bytes(tensor.values()))});
  }
  void add(const std::vector<Tensor>& bias_gradients) {
    for (std::size_t i = 0; i < bias_gradients.size(); ++i) {
      add("bias_" + std::to_string(i) + "_gradient", bias_gradients[i]);
    }
  }
  void add(const AttentionResult& result) {
    add("output", result.output);
    add("log_sum_exp", result.log_sum_exp);
    add("weights", result.weights);
    add("top_values", result.top.values);
    add("top_indices", result.top.indices);
    add("entropy", result.statistics.entropy);
    add("mean_distance", result.statistics.mean_distance);
    add("first_key_mass", result.statistics.first_key_mass);
  }
  void add(const AttentionWeights& weights, const std::string& suffix) {
    for (const WeightField& field : weight_fields())
      add(field.name + suffix, weights.*field.tensor);
  }

  [[nodiscard]] std::vector<NamedHash> list() && { return std::move(list_); }

 private:
  std::vector<NamedHash> list_;
};

// ---- Cases -------------------------------------------------------------------------------------

// Uniform, not normal: made of exact arithmetic, while normal needs libm's logarithm and cosine.
Tensor random(const Shape& shape, std::uint64_t seed, float bound = 1.0F) {
  return Tensor::uniform(shape, seed, -bound, bound);
}

BoolTensor random_keep(const Shape& shape, std::uint64_t seed) {
  const Tensor numbers = random(shape, seed);
  BoolTensor result(shape);
  for (std::int64_t i = 0; i < numbers.size(); ++i) result.data()[i] = numbers.data()[i] < 0.4F;
  return result;
}

// Some keys hidden by −∞.
Tensor random_bias(const Shape& shape, std::uint64_t seed) {
  Tensor result = random(shape, seed);
  for (float& x : result.values()) {
    if (x > 0.8F) x = -std::numeric_limits<float>::infinity();
  }
  return result;
}

struct AttentionCase {
  Shape query;  // as options.layout and options.packed want it
  Shape key;
  Shape value;
  AttentionOptions options = {};
  float bound = 1.0F;  // of inputs
};

std::vector<NamedHash> run(const AttentionCase& c) {
  const Tensor query = random(c.query, 1, c.bound);
  const Tensor key = random(c.key, 2, c.bound);
  const Tensor value = random(c.value, 3, c.bound);
  const AttentionResult forward = attention(query, key, value, c.options);
  const Tensor output_gradient = random(forward.output.shape(), 4);
  const AttentionGradients gradients =
      attention_backward({.query = query, .key = key, .value = value}, forward, output_gradient,
                         c.options, {.bias_gradient = true});
  Hashes hashes;
  hashes.add("query", query);  // inputs too: should they differ, nothing else can be equal
  hashes.add("key", key);
  hashes.add("value", value);
  hashes.add(forward);
  hashes.add("query_gradient", gradients.query);
  hashes.add("key_gradient", gradients.key);
  hashes.add("value_gradient", gradients.value);
  hashes.add(gradients.bias);
  return std::move(hashes).list();
}

struct LayerCase {
  AttentionConfig config;
  Shape query;
  std::optional<Shape> key = {};  // self-attention, if not given; the value has it too
  ForwardOptions options = {};
};

AttentionWeights random_weights(const AttentionConfig& config) {
  AttentionWeights weights;
  std::uint64_t seed = 100;
  for (const WeightField& field : weight_fields()) {
    ++seed;
    if (field.present(config)) weights.*field.tensor = random(field.flat_shape(config), seed);
  }
  return weights;
}

std::vector<NamedHash> run(const LayerCase& c) {
  const Tensor query = random(c.query, 1);
  const Tensor key = c.key ? random(*c.key, 2) : query;
  const AttentionInputs inputs = {.query = query, .key = key, .value = key};
  const MultiHeadAttention layer(c.config, random_weights(c.config));
  ForwardOptions options = c.options;
  options.save_for_backward = true;
  const AttentionResult forward = layer.forward(inputs, options);
  const Tensor output_gradient = random(forward.output.shape(), 4);
  const LayerGradients gradients =
      layer.backward(inputs, forward, output_gradient, options, {.bias_gradient = true});
  Hashes hashes;
  hashes.add("query", query);
  hashes.add("key", key);
  hashes.add(layer.weights(), "");
  hashes.add(forward);
  hashes.add("query_gradient", gradients.query);
  hashes.add("key_gradient", gradients.key);
  hashes.add("value_gradient", gradients.value);
  hashes.add(gradients.weights, "_gradient");
  hashes.add(gradients.bias);
  return std::move(hashes).list();
}

struct Case {
  std::string name;
  std::optional<AttentionCase> attention = {};
  std::optional<LayerCase> layer = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<NamedHash> run(const Case& c) {
  return c.attention ? run(*c.attention) : run(*c.layer);
}

// Sizes on both sides of vectors, of their multiples and of tiles; no two axes alike by accident.
std::vector<Case> attention_cases() {
  const Dropout dropout = {.probability = 0.3F, .seed = 5, .sequence_ids = {7, 2}};
  const auto make = [](const char* name, const AttentionCase& c) { return Case{name, c}; };
  return {
      make("one_number", {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}),
      make("square", {{2, 16, 4, 8}, {2, 16, 4, 8}, {2, 16, 4, 8}}),
      make("odd_sizes", {{2, 7, 3, 5}, {2, 13, 3, 5}, {2, 13, 3, 19}}),
      make("one_query_many_keys", {{2, 1, 2, 64}, {2, 333, 2, 64}, {2, 333, 2, 64}}),
      make("several_tiles", {{1, 131, 2, 33}, {1, 150, 2, 33}, {1, 150, 2, 70}}),
      make("wide_heads", {{1, 9, 1, 256}, {1, 10, 1, 256}, {1, 10, 1, 128}}),
      make("grouped_heads", {{2, 21, 6, 16}, {2, 34, 2, 16}, {2, 34, 2, 24}}),
      make("single_kv_head", {{1, 12, 5, 17}, {1, 30, 1, 17}, {1, 30, 1, 9}}),
      make("causal", {{1, 67, 2, 32}, {1, 67, 2, 32}, {1, 67, 2, 32}, {.mask = causal()}}),
      make("causal_last_queries", {{2, 5, 2, 16},
                                   {2, 71, 2, 16},
                                   {2, 71, 2, 16},
                                   {.mask = causal(Alignment::BottomRight)}}),
      make("window_grouped_heads",
           {{1, 90, 4, 12}, {1, 90, 2, 12}, {1, 90, 2, 12}, {.mask = window(11, 3)}}),
      make("lengths_and_an_empty_sequence",
           {{3, 9, 2, 8}, {3, 40, 2, 8}, {3, 40, 2, 8}, {.mask = valid_lengths({33, 0, 17})}}),
      make("keep_mask", {{2, 18, 2, 8},
                         {2, 37, 2, 8},
                         {2, 37, 2, 8},
                         {.mask = keep(random_keep({2, 18, 37}, 11), Axes::BatchQueryKey)}}),
      make("segments", {{6, 2, 8}, {6, 2, 8}, {6, 2, 8}, {.mask = segments({0, 0, 1, 1, 1, 2})}}),
      make("biases", {{2, 14, 2, 8},
                      {2, 35, 2, 8},
                      {2, 35, 2, 8},
                      {.bias = {Bias(random_bias({2, 14, 35}, 12), Axes::HeadQueryKey),
                                Bias(random({14, 35}, 13))}}}),
      make("scale_and_softcap",
           {{2, 11, 2, 20}, {2, 26, 2, 20}, {2, 26, 2, 20}, {.scale = 0.7F, .softcap = 1.5F}}),
      make("dropout", {{2, 20, 3, 8}, {2, 45, 3, 8}, {2, 45, 3, 8}, {.dropout = dropout}}),
      make(
          "causal_dropout_grouped_heads",
          {{2, 38, 4, 24}, {2, 38, 2, 24}, {2, 38, 2, 24}, {.mask = causal(), .dropout = dropout}}),
      make("heads_first",
           {{2, 3, 15, 10}, {2, 3, 22, 10}, {2, 3, 22, 6}, {.layout = Layout::HeadsFirst}}),
      make("packed_causal", {{27, 2, 16},
                             {27, 2, 16},
                             {27, 2, 16},
                             {.mask = causal(), .packed = PackedLengths{{0, 1, 18, 27}, {}}}}),
      make("all_weights_and_statistics",
           {{1, 10, 2, 8},
            {1, 31, 2, 8},
            {1, 31, 2, 8},
            {.weights = all_weights() | top_k_weights(3) | weight_statistics()}}),
      make("large_scores", {{1, 12, 2, 16}, {1, 50, 2, 16}, {1, 50, 2, 16}, {}, 20.0F}),
  };
}

std::vector<Case> layer_cases() {
  const auto make = [](const char* name, const LayerCase& c) { return Case{name, {}, c}; };
  return {
      make("layer", {{.num_heads = 2, .key_dim = 8, .query_features = 24}, {2, 19, 24}}),
      make("layer_without_biases",
           {{.num_heads = 3, .key_dim = 5, .query_features = 13, .use_bias = false}, {2, 9, 13}}),
      make("layer_cross_attention", {{.num_heads = 2,
                                      .key_dim = 16,
                                      .value_dim = 12,
                                      .query_features = 20,
                                      .key_features = 33,
                                      .output_features = 17},
                                     {2, 6, 20},
                                     Shape{2, 29, 33}}),
      make("layer_grouped_causal_dropout", {{.num_heads = 6,
                                             .num_kv_heads = 2,
                                             .key_dim = 8,
                                             .query_features = 32,
                                             .dropout = 0.2F,
                                             .seed = 9},
                                            {2, 35, 32},
                                            {},
                                            {.mask = causal(), .training = true}}),
      make("layer_gate",
           {{.num_heads = 2, .key_dim = 8, .query_features = 18, .use_gate = true}, {2, 12, 18}}),
      make("layer_rms_norm",
           {{.num_heads = 2, .key_dim = 20, .query_features = 16, .qk_norm = QkNorm::RmsNorm},
            {2, 12, 16}}),
      make("layer_layer_norm",
           {{.num_heads = 2, .key_dim = 20, .query_features = 16, .qk_norm = QkNorm::LayerNorm},
            {2, 12, 16}}),
      make("layer_extra_keys", {{.num_heads = 2,
                                 .key_dim = 8,
                                 .query_features = 16,
                                 .softcap = 3.0F,
                                 .add_bias_kv = true,
                                 .add_zero_attn = true},
                                {2, 10, 16},
                                {},
                                {.mask = valid_lengths({10, 4})}}),
      make("layer_packed", {{.num_heads = 4, .key_dim = 16, .query_features = 64},
                            {40, 64},
                            {},
                            {.mask = causal(), .packed = PackedLengths{{0, 7, 40}, {}}}}),
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = attention_cases();
  for (Case& c : layer_cases()) cases.push_back(std::move(c));
  return cases;
}

// ---- The golden file ---------------------------------------------------------------------------

using GoldenBits = std::map<std::string, std::string>;  // "case/tensor" → hash

void write_golden_bits(const std::string& path) {
  std::ofstream file(path);
  file << "# FNV-1a of every result of golden_bits_test.cc, which tells how to write this file\n";
  for (const Case& c : all_cases()) {
    for (const auto& [tensor, hash] : run(c)) {
      file << c.name << '/' << tensor << ' ' << hash << '\n';
    }
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

GoldenBits read_golden_bits(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  GoldenBits golden;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name;
    std::string hash;
    if (!(words >> name >> hash) || !golden.emplace(name, hash).second) {
      throw std::runtime_error(path + ": a bad or repeated line: " + line);
    }
  }
  return golden;
}

std::string machine() {
  utsname names{};
  return uname(&names) == 0 ? std::string(names.machine) : "this machine";
}

class GoldenBitsTest : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    const char* written = std::getenv("HEADWISE_WRITE_GOLDEN_BITS");
    if (written != nullptr) write_golden_bits(written);
    golden_ = read_golden_bits(written != nullptr ? written : HEADWISE_GOLDEN_BITS);
  }
  static void TearDownTestSuite() {
    std::printf("golden bits on %s: %d tensors compared, %d of them differ\n", machine().c_str(),
                compared_, different_);
  }

  static inline GoldenBits golden_;
  static inline int compared_ = 0;  // over all cases
  static inline int different_ = 0;
};

TEST_P(GoldenBitsTest, AreThoseOfTheFile) {
  const std::string& name = GetParam().name;
  for (const auto& [tensor, hash] : run(GetParam())) {
    const auto found = golden_.find(name + "/" + tensor);
    if (found == golden_.end()) {
      ADD_FAILURE() << "case " << name << ": " << tensor << " is not in the golden file";
      continue;
    }
    ++compared_;
    if (found->second != hash) {
      ++different_;
      ADD_FAILURE() << "case " << name << ": " << tensor << " has other bits: hash " << hash
                    << " on " << machine() << ", " << found->second << " in the golden file";
    }
    golden_.erase(found);  // with --gtest_repeat the file is read again
  }
  // A line that nothing computes any more would look like a comparison that is made.
  for (auto line = golden_.lower_bound(name + "/");
       line != golden_.end() && line->first.starts_with(name + "/"); ++line) {
    ADD_FAILURE() << "case " << name << ": does not compute the golden file's " << line->first;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenBitsTest, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(GoldenBitsFile, NamesNoOtherCases) {
  std::set<std::string> names;
  for (const Case& c : all_cases()) names.insert(c.name);
  for (const auto& [name, hash] : read_golden_bits(HEADWISE_GOLDEN_BITS)) {
    EXPECT_TRUE(names.contains(name.substr(0, name.find('/')))) << name;
  }
}

// Values published with the algorithm.
TEST(GoldenBitsFile, HashIsFnv1a) {
  const std::string foobar = "foobar";
  EXPECT_EQ(hash_of({}), "cbf29ce484222325");
  EXPECT_EQ(hash_of(std::as_bytes(std::span(foobar))), "85944171f73967e8");
}

}  // namespace
}  // namespace headwise
