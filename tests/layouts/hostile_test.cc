// Names and shapes that nobody means well with.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "stored.h"

namespace headwise::test_layouts {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 31;

std::vector<NamedShape> keras(const Shape& query, const Shape& key, const Shape& value,
                              const Shape& output) {
  return {{"query/kernel", query},
          {"key/kernel", key},
          {"value/kernel", value},
          {"attention_output/kernel", output}};
}

std::string why(const std::vector<NamedShape>& tensors, const LayerHints& hints = {}) {
  const auto found = find_layers(tensors, {}, hints);
  if (found.size() != 1) return std::to_string(found.size()) + " layers";
  if (found[0].config) return "a configuration";
  return found[0].missing;
}

TEST(HostileNames, KernelsThatDoNotFitEachOther) {
  EXPECT_EQ(why(keras({12, 3, 4}, {12, 3, 5}, {12, 3, 4}, {3, 4, 12})),
            "its projections do not fit each other: queries have 12 columns, keys 15, values 12");
  EXPECT_EQ(why(keras({12, 3, 4}, {12, 2, 4}, {12, 2, 4}, {3, 4, 12})),
            "its projections do not fit each other: queries have 12 columns, keys 8, values 8");
  EXPECT_EQ(why(keras({12, 3, 4}, {12, 3, 4}, {12, 3, 4}, {4, 3, 12})),
            "'attention_output/kernel': expected shape (3, 4, 12), got (4, 3, 12)");
  // The same widths, but heads of other sizes.
  EXPECT_EQ(why(keras({12, 3, 4}, {12, 4, 3}, {12, 3, 4}, {3, 4, 12})),
            "'key/kernel': expected shape (12, 3, 4), got (12, 4, 3)");
}

TEST(HostileNames, EmptyTensors) {
  EXPECT_EQ(why(keras({12, 0, 4}, {12, 3, 4}, {12, 3, 4}, {3, 4, 12})),
            "'query/kernel' is empty: (12, 0, 4)");
  // A zero may stand before extents whose product would overflow.
  EXPECT_EQ(why(keras({0, kHuge, kHuge}, {12, 3, 4}, {12, 3, 4}, {3, 4, 12})),
            "'query/kernel' is empty: (0, 2147483648, 2147483648)");
}

TEST(HostileNames, SizesWhoseProductsOverflow) {
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(why(keras({large, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, large})), "a configuration")
      << "shapes alone are no reason to refuse it";
  // Each kernel is possible; the output kernel that the others call for is not.
  const std::string text =
      why(keras({1, kHuge, 1}, {1, kHuge, 1}, {1, kHuge, kHuge - 1}, {1, 1, large}));
  EXPECT_NE(text, "a configuration");
  EXPECT_FALSE(text.empty());
  const std::vector<NamedShape> torch = {{"in_proj_weight", {large, 1}},
                                         {"out_proj.weight", {1, 1}}};
  EXPECT_NE(why(torch, {.num_heads = 1}), "a configuration");
}

TEST(HostileNames, PackedTensorsOfNoThreeParts) {
  const std::vector<NamedShape> torch = {{"in_proj_weight", {37, 12}},
                                         {"out_proj.weight", {12, 12}}};
  EXPECT_EQ(why(torch, {.num_heads = 3}),
            "'in_proj_weight' of shape (37, 12) does not hold three projections of one width");
}

TEST(HostileNames, PartsOfLayers) {
  const Shape square{12, 12};
  // Three of four kernels are a layer that lacks one; fewer are something else.
  EXPECT_EQ(
      why({{"a.q_proj.weight", square}, {"a.k_proj.weight", square}, {"a.o_proj.weight", square}}),
      "its value/kernel is missing");
  EXPECT_EQ(why({{"a.self.query.weight", square},
                 {"a.self.key.weight", square},
                 {"a.self.value.weight", square}}),
            "its attention_output/kernel is missing");
  EXPECT_TRUE(
      find_layers(std::vector<NamedShape>{{"a.q_proj.weight", square}, {"b.k_proj.weight", square}})
          .empty());
  EXPECT_TRUE(find_layers(std::vector<NamedShape>{{"a.in_proj_weight", {36, 12}}}).size() == 1U)
      << "a packed projection is three kernels";
  EXPECT_TRUE(find_layers({}).empty());
}

TEST(HostileNames, WrongRanksAreOtherLayers) {
  EXPECT_TRUE(
      find_layers(keras({3, 3, 12, 12}, {3, 3, 12, 12}, {3, 3, 12, 12}, {3, 3, 12, 12})).empty())
      << "convolutions";
}

TEST(HostileNames, OneWeightUnderTwoNames) {
  auto tensors = keras({12, 3, 4}, {12, 3, 4}, {12, 3, 4}, {3, 4, 12});
  tensors.push_back({"query.kernel", {12, 3, 4}});
  EXPECT_EQ(why(tensors), "two tensors are its query/kernel, one of them 'query.kernel'");
  const std::vector<NamedShape> both = {
      {"in_proj_weight", {36, 12}}, {"q_proj_weight", {12, 12}}, {"out_proj.weight", {12, 12}}};
  EXPECT_EQ(why(both, {.num_heads = 3}),
            "its query kernel is there twice, packed with others and alone");
}

TEST(HostileNames, BiasesAndNormsOfOtherSizes) {
  auto tensors = keras({12, 3, 4}, {12, 3, 4}, {12, 3, 4}, {3, 4, 12});
  tensors.push_back({"query/bias", {4, 3}});
  EXPECT_NE(why(tensors).find("'query/bias': expected shape (3, 4)"), std::string::npos);
  tensors.back() = {"gate/bias", {3, 4}};
  EXPECT_EQ(why(tensors), "'gate/bias' does not belong to a layer of its configuration");
}

// ---- Metadata that lie ------------------------------------------------------------------------------

StoredLayer stored_headwise() {
  return write_layer(numbered_layer({.num_heads = 3, .key_dim = 4, .query_features = 12}),
                     WeightLayout::Headwise, "a");
}

std::string why_with(const std::string& config) {
  StoredLayer stored = stored_headwise();
  stored.metadata.at("headwise:a") = config;
  const auto found = find_in(stored);
  return found.at(0).config ? "a configuration" : found[0].missing;
}

TEST(HostileMetadata, ConfigurationsThatContradictTheTensors) {
  EXPECT_EQ(why_with(R"({"num_heads": 3, "key_dim": 4, "query_features": 12})"), "a configuration");
  EXPECT_EQ(why_with(R"({"num_heads": 4, "key_dim": 4, "query_features": 12})"),
            "'a/attention_output/kernel': expected shape (16, 12), got (12, 12)");
  EXPECT_EQ(why_with(R"({"num_heads": 3, "key_dim": 4, "query_features": 12, "use_gate": true})"),
            "its gate/kernel is missing");
  EXPECT_EQ(why_with(R"({"num_heads": 3, "key_dim": 4, "query_features": 12, "use_bias": false})"),
            "'a/attention_output/bias' does not belong to a layer of its configuration");
}

TEST(HostileMetadata, TextThatIsNoConfiguration) {
  const std::string deep(100'000, '[');
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[1]"), std::string("{"), deep,
        std::string("\xFF\xFE"), std::string(R"({"num_heads": "3"})"),
        std::string(R"({"num_heads": 3.5})"), std::string(R"({"num_heads": 18446744073709551615})"),
        std::string(R"({"num_heads": -3, "key_dim": 4, "query_features": 12})"),
        std::string(R"({"num_heads": 4611686018427387904, "key_dim": 4, "query_features": 12})"),
        std::string(R"({"num_heads": 3, "key_dim": 4, "query_features": 12, "qk_norm": "l2"})"),
        std::string(R"({"num_heads": 3, "key_dim": 4, "query_features": 12, "scale": 1e999})"),
        std::string(
            R"({"num_heads": 3, "key_dim": 4, "query_features": 12, "from_the_future": 1})"),
        std::string(R"({"num_heads": 3, "key_dim": 4, "query_features": 12, "seed": -1})")}) {
    const std::string reason = why_with(text);
    EXPECT_NE(reason, "a configuration") << text.substr(0, 80);
    EXPECT_LT(reason.size(), 400U) << "one line for people";
  }
}

// ---- Many, and long -----------------------------------------------------------------------------------

// No clock is asked: work that grew with the square of the size would not end.
TEST(HostileNames, ManyLayersAndLongNames) {
  std::vector<NamedShape> tensors;
  std::map<std::string, std::string> metadata;
  for (int i = 0; i < 100'000; ++i) {
    const std::string path = "layers/multi_head_attention_" + std::to_string(i);
    tensors.push_back({path + "/query_dense/vars/0", {2, 1, 2}});
    tensors.push_back({path + "/key_dense/vars/0", {2, 1, 2}});
    tensors.push_back({path + "/value_dense/vars/0", {2, 1, 2}});
    tensors.push_back({path + "/output_dense/vars/0", {1, 2, 2}});
    metadata[path + "/vars@name"] = "all the same";
  }
  std::string deep = "x";
  for (int i = 0; i < 200'000; ++i) deep += "/x";
  metadata[deep + "/vars@name"] = "deep";
  for (const char* part : {"query", "key", "value", "output"}) {
    tensors.push_back({deep + "/" + part + "_dense/vars/0", {1, 1, 1}});
  }
  NamedShape dots{"", {1}};
  dots.name.assign(1'000'000, '.');
  tensors.push_back(dots);
  NamedShape slashes{"", {1, 1, 1}};
  slashes.name.assign(1'000'000, '/');
  slashes.name += "query/kernel";
  tensors.push_back(slashes);
  const auto found = find_layers(tensors, metadata);
  ASSERT_EQ(found.size(), 100'001U);
  EXPECT_EQ(found[0].name, "layers/multi_head_attention_0");
  EXPECT_EQ(found[99'999].name, "layers/multi_head_attention_99999") << "counted, not spelt";
}

TEST(HostileNames, EveryShortName) {
  // No name is too short for the search for endings.
  std::vector<NamedShape> tensors;
  for (const char* name :
       {"", "/", ".", ":0", "0", "//", "./", "W_q", "weight", ".weight", "/kernel"}) {
    tensors.push_back({name, {2, 2}});
  }
  EXPECT_TRUE(find_layers(tensors).empty());
}

}  // namespace
}  // namespace headwise::test_layouts
