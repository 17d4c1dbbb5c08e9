// Spectra of heads: known answers, full matrices in float64, what must not matter.
#include "headwise/spectra.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "analyze/spectra_support.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise::test_support {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Writes one head's part of a kernel.
void set_columns(Tensor& kernel, std::int64_t head, const Tensor& part) {
  const std::int64_t size = part.extent(1);
  const auto columns = kernel.view().sliced(1, head * size, (head + 1) * size);
  for (std::int64_t i = 0; i < part.extent(0); ++i) {
    for (std::int64_t j = 0; j < size; ++j) columns(i, j) = part.view()(i, j);
  }
}
void fill_columns(Tensor& kernel, std::int64_t head, std::int64_t size, float value) {
  set_columns(kernel, head, Tensor::full({kernel.extent(0), size}, value));
}

// Unit vectors of the first features times these numbers: the singular values are the numbers, if
// the other factor holds the unit vectors themselves.
Tensor diagonal(std::int64_t features, const std::vector<float>& values) {
  Tensor matrix({features, static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) matrix.view()(i, i) = values[i];
  return matrix;
}

LayerParts one_head(const Tensor& query, const Tensor& key) {
  const AttentionConfig config{.num_heads = 1,
                               .key_dim = query.extent(1),
                               .query_features = query.extent(0),
                               .key_features = key.extent(0),
                               .use_bias = false};
  LayerParts layer{config, AttentionWeights::glorot(config, 1)};
  layer.weights.query_kernel = query;
  layer.weights.key_kernel = key;
  return layer;
}

Spectrum score_spectrum(const Tensor& query, const Tensor& key) {
  return inspect_heads(one_head(query, key)).heads[0].scores;
}

// ---- known answers -----------------------------------------------------------------------------

// numpy.linalg.svd of the 5×4 product, and the definitions on its result.
TEST(Spectrum, AsNumpyHasIt) {
  const Tensor query = Tensor::from({5, 3}, {2, -1, 0, 1, 3, 1, 0, 1, -2, 4, 0, 1, -1, 2, 2});
  const Tensor key = Tensor::from({4, 3}, {1, 0, 2, -3, 1, 0, 2, 2, -1, 0, 1, 5});
  const Spectrum spectrum = score_spectrum(query, key);
  ASSERT_EQ(spectrum.singular_values.size(), 3U);
  EXPECT_NEAR(spectrum.singular_values[0], 20.133075196722761, 1e-13);
  EXPECT_NEAR(spectrum.singular_values[1], 16.239203705901197, 1e-13);
  EXPECT_NEAR(spectrum.singular_values[2], 7.5463597927313089, 1e-13);
  EXPECT_NEAR(spectrum.frobenius_norm, 26.94438717061496, 1e-13);
  EXPECT_EQ(spectrum.spectral_norm, spectrum.singular_values[0]);
  EXPECT_NEAR(spectrum.effective_rank, 2.795640444499185, 1e-13);
  EXPECT_NEAR(spectrum.stable_rank, 1.7910857946710912, 1e-13);
  EXPECT_NEAR(spectrum.condition, 2.667918804522816, 1e-13);
  EXPECT_EQ(spectrum.rank, 3);
}

TEST(Spectrum, OrthonormalFactorsUseAllDirectionsAlike) {
  const Spectrum spectrum =
      score_spectrum(diagonal(9, {1, 1, 1, 1, 1}), diagonal(7, {1, 1, 1, 1, 1}));
  EXPECT_EQ(spectrum.singular_values, std::vector<double>(5, 1.0));
  EXPECT_NEAR(spectrum.effective_rank, 5.0, 1e-12);
  EXPECT_NEAR(spectrum.stable_rank, 5.0, 1e-12);
  EXPECT_EQ(spectrum.condition, 1.0);
  EXPECT_NEAR(spectrum.frobenius_norm, std::sqrt(5.0), 1e-12);
}

TEST(Spectrum, ADiagonalIsReadOff) {
  const Spectrum spectrum = score_spectrum(diagonal(6, {1, 4, 0, 2}), diagonal(6, {1, 1, 1, 1}));
  EXPECT_EQ(spectrum.singular_values, (std::vector<double>{4, 2, 1, 0}));
  EXPECT_EQ(spectrum.condition, kInfinity);
  EXPECT_EQ(spectrum.rank, 3);
  EXPECT_NEAR(spectrum.stable_rank, 21.0 / 16.0, 1e-12);
  // p = 4/7, 2/7, 1/7
  EXPECT_NEAR(
      spectrum.effective_rank,
      std::pow(7.0 / 4.0, 4.0 / 7.0) * std::pow(7.0 / 2.0, 2.0 / 7.0) * std::pow(7.0, 1.0 / 7.0),
      1e-12);
}

TEST(Spectrum, OneDirectionIsOneWhateverTheSizes) {
  const Tensor column = Tensor::normal({40, 1}, 3);
  const Tensor row = Tensor::normal({1, 8}, 4);
  const Spectrum spectrum = score_spectrum(linear(column, row), Tensor::normal({30, 8}, 5));
  EXPECT_EQ(spectrum.rank, 1);
  EXPECT_NEAR(spectrum.effective_rank, 1.0, 1e-4);  // the rounding of `column·row` is in it
  EXPECT_NEAR(spectrum.stable_rank, 1.0, 1e-12);
  for (const double share : {0.5, 0.9, 0.99, 0.999}) EXPECT_EQ(dims_for_energy(spectrum, share), 1);
}

// 8·2⁻²⁴ of the largest is where the rounding of float32 weights with 8 features begins.
TEST(Spectrum, RankStopsAtTheRounding) {
  const Tensor ones = diagonal(8, {1, 1, 1});
  EXPECT_EQ(score_spectrum(diagonal(8, {1, 0.5F, 9.0F * 0x1p-24F}), ones).rank, 3);
  EXPECT_EQ(score_spectrum(diagonal(8, {1, 0.5F, 7.0F * 0x1p-24F}), ones).rank, 2);
}

TEST(Spectrum, NothingIsNothing) {
  const Spectrum spectrum = score_spectrum(Tensor({6, 3}), Tensor::normal({6, 3}, 1));
  EXPECT_EQ(spectrum.singular_values, std::vector<double>(3, 0.0));
  EXPECT_EQ(spectrum.effective_rank, 0.0);
  EXPECT_EQ(spectrum.stable_rank, 0.0);
  EXPECT_EQ(spectrum.frobenius_norm, 0.0);
  EXPECT_EQ(spectrum.rank, 0);
  EXPECT_EQ(spectrum.condition, kInfinity);
  EXPECT_EQ(dims_for_energy(spectrum, 0.999), 0);
}

// Nothing of this is squared in float32, where it would be 0 or infinite.
TEST(Spectrum, TinyAndHugeWeightsKeepTheirDigits) {
  for (const float size : {1e-30F, 1e30F}) {
    const Spectrum spectrum =
        score_spectrum(diagonal(6, {3 * size, 4 * size}), diagonal(6, {size, size}));
    const double unit = static_cast<double>(size) * static_cast<double>(size);
    EXPECT_NEAR(spectrum.frobenius_norm / unit, 5.0, 1e-6);
    EXPECT_NEAR(spectrum.stable_rank, 25.0 / 16.0, 1e-6);
    EXPECT_EQ(spectrum.rank, 2);
  }
}

TEST(DimsForEnergy, CountsFromTheLargest) {
  // Energies 81, 16, 2, 1 of 100.
  Spectrum spectrum;
  spectrum.singular_values = {9, 4, std::sqrt(2.0), 1};
  spectrum.frobenius_norm = 10;
  EXPECT_EQ(dims_for_energy(spectrum, 0.0), 0);
  EXPECT_EQ(dims_for_energy(spectrum, 0.5), 1);
  EXPECT_EQ(dims_for_energy(spectrum, 0.9), 2);
  EXPECT_EQ(dims_for_energy(spectrum, 0.96), 2);
  EXPECT_EQ(dims_for_energy(spectrum, 0.98), 3);
  EXPECT_EQ(dims_for_energy(spectrum, 0.999), 4);
  EXPECT_EQ(dims_for_energy(spectrum, 1.0), 4);
  spectrum.singular_values.push_back(0.0);
  EXPECT_EQ(dims_for_energy(spectrum, 1.0), 4) << "zeros hold nothing";
  EXPECT_TRUE(refuses([&] { dims_for_energy(spectrum, 1.1); }, "dims_for_energy", "share", "1.1"));
  EXPECT_TRUE(
      refuses([&] { dims_for_energy(spectrum, std::nan("")); }, "dims_for_energy", "share"));
}

// ---- every head of a layer ---------------------------------------------------------------------

TEST(InspectHeads, BiasesAreMeasuredWhereTheyMatter) {
  const AttentionConfig config{.num_heads = 4,
                               .num_kv_heads = 2,
                               .key_dim = 3,
                               .value_dim = 2,
                               .query_features = 5,
                               .key_features = 6};
  LayerParts layer = random_layer(config);
  const LayerSpectra before = inspect_heads(layer);
  for (std::int64_t h = 0; h < 4; ++h) {
    const HeadSpectra& head = before.heads[static_cast<std::size_t>(h)];
    EXPECT_EQ(head.kv_head, h / 2);
    const HeadViews views = head_views(config, layer.weights, h);
    const ConstView query_bias = layer.weights.query_bias.view().sliced(0, h * 3, h * 3 + 3);
    const ConstView value_bias =
        layer.weights.value_bias.view().sliced(0, head.kv_head * 2, head.kv_head * 2 + 2);
    const Tensor preference = linear(query_bias, views.key_kernel.permuted({1, 0}));
    const Tensor constant = linear(value_bias, views.output_kernel);
    EXPECT_NEAR(head.key_preference, norm(matrix_of(preference.view().broadcast(0, 1))), 1e-6);
    EXPECT_NEAR(head.constant_output, norm(matrix_of(constant.view().broadcast(0, 1))), 1e-6);
    EXPECT_NEAR(head.query_norm, norm(matrix_of(views.query_kernel)), 1e-12);
    EXPECT_NEAR(head.key_norm, norm(matrix_of(views.key_kernel)), 1e-12);
    EXPECT_NEAR(head.value_norm, norm(matrix_of(views.value_kernel)), 1e-12);
    EXPECT_NEAR(head.output_norm, norm(matrix_of(views.output_kernel)), 1e-12);
    EXPECT_NEAR(head.score_spread,
                static_cast<double>(config.score_scale()) *
                    std::hypot(norm(score_product(layer, h)), head.key_preference),
                1e-12);
  }
  layer.weights.key_bias = Tensor::full({6}, 100.0F);
  const LayerSpectra after = inspect_heads(layer);
  EXPECT_EQ(after.heads[1].score_spread, before.heads[1].score_spread)
      << "the key's bias adds the same to all scores of a query";
}

// The standard deviation that score_spread promises, seen on random inputs.
TEST(InspectHeads, ScoreSpreadIsWhatRandomInputsShow) {
  const AttentionConfig config{.num_heads = 1, .key_dim = 8, .query_features = 24};
  const LayerParts layer = random_layer(config);
  const Tensor query =
      linear(Tensor::normal({300, 24}, 1), layer.weights.query_kernel, layer.weights.query_bias);
  const Tensor key =
      linear(Tensor::normal({300, 24}, 2), layer.weights.key_kernel, layer.weights.key_bias);
  const Tensor scores = linear(query, key.view().permuted({1, 0}));
  double variance = 0.0;
  for (std::int64_t i = 0; i < 300; ++i) {
    double sum = 0.0;
    double squares = 0.0;
    for (std::int64_t j = 0; j < 300; ++j) {
      const auto score = static_cast<double>(scores.view()(i, j) * config.score_scale());
      sum += score;
      squares += score * score;
    }
    variance += (squares - sum * sum / 300.0) / 299.0 / 300.0;
  }
  const double spread = inspect_heads(layer).heads[0].score_spread;
  EXPECT_NEAR(std::sqrt(variance), spread, 0.1 * spread);
}

TEST(InspectHeads, DeadAndUniformHeadsAreFound) {
  const AttentionConfig config{.num_heads = 5, .key_dim = 4, .query_features = 12};
  LayerParts layer = random_layer(config);
  fill_columns(layer.weights.value_kernel, 1, 4, 0.0F);  // gives its bias and no more
  for (std::int64_t i = 0; i < 12; ++i) {                // a hundred-thousandth of the others
    for (std::int64_t j = 12; j < 16; ++j) layer.weights.value_kernel.view()(i, j) *= 1e-5F;
  }
  fill_columns(layer.weights.query_kernel, 2, 4, 0.0F);
  for (std::size_t i = 8; i < 12; ++i) layer.weights.query_bias.values()[i] = 0.0F;
  fill_columns(layer.weights.query_kernel, 4, 4, 0.0F);  // its bias still prefers some keys
  const LayerSpectra result = inspect_heads(layer);
  const std::vector<bool> dead = {false, true, false, true, false};
  const std::vector<bool> uniform = {false, false, true, false, false};
  for (std::size_t h = 0; h < 5; ++h) {
    EXPECT_EQ(result.heads[h].dead, dead[h]) << h;
    EXPECT_EQ(result.heads[h].uniform, uniform[h]) << h;
  }
  EXPECT_EQ(inspect_heads(layer, {.dead_below = 1e-6}).heads[3].dead, false);
  std::vector<double> norms;
  for (const HeadSpectra& head : result.heads) norms.push_back(head.values.frobenius_norm);
  std::sort(norms.begin(), norms.end());
  EXPECT_EQ(result.median_value_norm, norms[2]);
}

// Dead is a word about one head among others: a layer of small weights is not dead.
TEST(InspectHeads, SmallWeightsAloneAreNotDead) {
  LayerParts layer =
      random_layer(AttentionConfig{.num_heads = 3, .key_dim = 4, .query_features = 12});
  for (float& x : layer.weights.value_kernel.values()) x *= 1e-6F;
  for (const HeadSpectra& head : inspect_heads(layer).heads) EXPECT_FALSE(head.dead);
}

TEST(InspectHeads, ALayerOfZerosIsAllDead) {
  const AttentionConfig config{.num_heads = 4, .key_dim = 2, .query_features = 6};
  const LayerSpectra result = inspect_heads({config, AttentionWeights::zeros(config)});
  for (const HeadSpectra& head : result.heads) {
    EXPECT_TRUE(head.dead);
    EXPECT_TRUE(head.uniform);
  }
  EXPECT_TRUE(result.alike_scores.empty()) << "zeros have no direction";
  for (const float x : result.value_similarity.values()) EXPECT_EQ(x, 0.0F);
}

TEST(InspectHeads, CopiesOppositesAndStrangersAreTold) {
  const AttentionConfig config{.num_heads = 4, .key_dim = 3, .query_features = 10};
  LayerParts layer = random_layer(config);
  AttentionWeights& w = layer.weights;
  const auto copy_columns = [&](Tensor& kernel, std::int64_t from, std::int64_t to, float factor) {
    for (std::int64_t i = 0; i < kernel.extent(0); ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        kernel.view()(i, to * 3 + j) = factor * kernel.view()(i, from * 3 + j);
      }
    }
  };
  // Head 2 looks where head 0 looks, head 3 looks away; both give what they want.
  for (const std::int64_t to : {2, 3}) copy_columns(w.key_kernel, 0, to, 1.0F);
  copy_columns(w.query_kernel, 0, 2, 8.0F);
  copy_columns(w.query_kernel, 0, 3, -0.5F);
  // Heads 0 and 1 use features that the other does not.
  for (std::int64_t i = 0; i < 10; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) w.value_kernel.view()(i, (i < 5 ? 3 : 0) + j) = 0.0F;
  }
  const LayerSpectra result = inspect_heads(layer);
  const auto scores = result.score_similarity.view();
  EXPECT_NEAR(scores(0, 2), 1.0, 1e-6);
  EXPECT_NEAR(scores(3, 0), -1.0, 1e-6);
  EXPECT_NEAR(scores(2, 3), -1.0, 1e-6);
  EXPECT_NEAR(result.value_similarity.view()(0, 1), 0.0, 1e-12);
  ASSERT_EQ(result.alike_scores.size(), 1U);
  EXPECT_EQ(result.alike_scores[0].head, 0);
  EXPECT_EQ(result.alike_scores[0].other, 2);
  EXPECT_NEAR(result.alike_scores[0].similarity, 1.0, 1e-6);
  EXPECT_TRUE(result.alike_values.empty());
  for (std::int64_t h = 0; h < 4; ++h) EXPECT_NEAR(scores(h, h), 1.0, 1e-6);
  const LayerSpectra all = inspect_heads(layer, {.alike_above = -1.0});
  ASSERT_EQ(all.alike_scores.size(), 6U);
  for (std::size_t i = 1; i < 6; ++i) {
    EXPECT_GE(all.alike_scores[i - 1].similarity, all.alike_scores[i].similarity);
  }
}

TEST(InspectHeads, OneBadWeightSpoilsOneHead) {
  const AttentionConfig config{.num_heads = 3, .key_dim = 2, .query_features = 5};
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const LayerParts good = random_layer(config);
    const LayerSpectra expected = inspect_heads(good);
    for (const WeightField& field : weight_fields()) {
      LayerParts layer = good;
      Tensor& tensor = layer.weights.*field.tensor;
      if (!field.present(config) || &tensor == &layer.weights.output_bias) continue;
      tensor.values()[field.tensor == &AttentionWeights::output_kernel ? 2 * 5 : 2] = bad;
      const LayerSpectra result = inspect_heads(layer);
      EXPECT_FALSE(result.heads[1].finite) << field.name;
      EXPECT_TRUE(result.heads[1].scores.singular_values.empty());
      EXPECT_FALSE(result.heads[1].dead);
      for (const std::size_t other : {0U, 2U}) {
        EXPECT_TRUE(result.heads[other].finite) << field.name;
        EXPECT_EQ(result.heads[other].scores.singular_values,
                  expected.heads[other].scores.singular_values);
      }
      EXPECT_EQ(result.score_similarity.view()(0, 1), 0.0F);
      EXPECT_EQ(result.score_similarity.view()(0, 2), expected.score_similarity.view()(0, 2));
    }
  }
}

TEST(InspectHeads, NormalisedScoresHaveASpectrumButNoSpread) {
  AttentionConfig config{.num_heads = 2, .key_dim = 4, .query_features = 6};
  config.qk_norm = QkNorm::RmsNorm;
  const LayerSpectra result = inspect_heads({config, AttentionWeights::zeros(config)});
  EXPECT_EQ(result.heads[0].scores.singular_values.size(), 4U);
  EXPECT_EQ(result.heads[0].score_spread, 0.0);
  EXPECT_FALSE(result.heads[0].uniform);
}

TEST(InspectHeads, ThreadsChangeNothingAndProgressIsComplete) {
  const AttentionConfig config{.num_heads = 7, .key_dim = 5, .query_features = 20};
  const LayerParts layer = random_layer(config);
  std::vector<std::int64_t> steps;
  SpectraOptions options{.threads = 4};
  options.progress = [&](std::int64_t done, std::int64_t all) {
    EXPECT_EQ(all, 28);
    steps.push_back(done);
  };
  const LayerSpectra many = inspect_heads(layer, options);
  ASSERT_EQ(steps.size(), 28U);
  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_EQ(steps[i], static_cast<std::int64_t>(i) + 1);
  const LayerSpectra one = inspect_heads(layer, {.threads = 1});
  for (std::size_t h = 0; h < 7; ++h) {
    EXPECT_EQ(many.heads[h].scores.singular_values, one.heads[h].scores.singular_values);
    EXPECT_EQ(many.heads[h].values.singular_values, one.heads[h].values.singular_values);
  }
  EXPECT_TRUE(same_bits(many.score_similarity, one.score_similarity));
  EXPECT_TRUE(same_bits(many.value_similarity, one.value_similarity));
}

TEST(InspectHeads, AnExceptionOfTheProgressArrives) {
  const LayerParts layer =
      random_layer(AttentionConfig{.num_heads = 6, .key_dim = 2, .query_features = 4});
  SpectraOptions options{.threads = 3};
  options.progress = [](std::int64_t done, std::int64_t) {
    if (done == 3) throw std::runtime_error("enough");
  };
  EXPECT_THROW(static_cast<void>(inspect_heads(layer, options)), std::runtime_error);
}

TEST(InspectHeads, RefusesWhatCannotBe) {
  LayerParts layer =
      random_layer(AttentionConfig{.num_heads = 2, .key_dim = 2, .query_features = 4});
  EXPECT_TRUE(refuses([&] { inspect_heads(layer, {.threads = -1}); }, "inspect_heads", "threads"));
  EXPECT_TRUE(
      refuses([&] { inspect_heads(layer, {.threads = 1025}); }, "inspect_heads", "threads"));
  layer.weights.key_kernel = Tensor({4, 5});
  EXPECT_TRUE(refuses([&] { inspect_heads(layer); }, "MultiHeadAttention", "weights key/kernel"));
  const AttentionConfig many{.num_heads = 5000, .key_dim = 1, .query_features = 1};
  EXPECT_TRUE(refuses(
      [&] {
        inspect_heads({many, AttentionWeights::zeros(many)});
      },
      "inspect_heads", "layer", "4096"));
}

// ---- any layer ---------------------------------------------------------------------------------

void expect_spectrum_of(const Matrix& product, std::size_t inner_size, const Spectrum& spectrum) {
  std::vector<double> expected = singular_values_of(product);
  expected.resize(std::min({product.size(), product[0].size(), inner_size}));
  RC_ASSERT(spectrum.singular_values.size() == expected.size());
  const double scale = norm(product);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    RC_ASSERT(std::abs(spectrum.singular_values[i] - expected[i]) <= 1e-13 * scale);
  }
  RC_ASSERT(std::abs(spectrum.frobenius_norm - scale) <= 1e-13 * scale);
  RC_ASSERT(spectrum.rank <= static_cast<std::int64_t>(expected.size()));
  RC_ASSERT(spectrum.stable_rank <= spectrum.effective_rank * (1.0 + 1e-9));
  RC_ASSERT(spectrum.effective_rank <= static_cast<double>(expected.size()) * (1.0 + 1e-9));
}

RC_GTEST_PROP(InspectHeadsProperty, AgreesWithTheFullProducts, (std::uint64_t seed)) {
  Dice dice(seed);
  const AttentionConfig config = any_config(dice);
  const LayerParts layer = random_layer(config, seed);
  const LayerSpectra result = inspect_heads(layer, {.threads = 1});
  std::vector<Matrix> scores;
  std::vector<Matrix> values;
  for (std::int64_t h = 0; h < config.num_heads; ++h) {
    scores.push_back(score_product(layer, h));
    values.push_back(value_product(layer, h));
    const HeadSpectra& head = result.heads[static_cast<std::size_t>(h)];
    expect_spectrum_of(scores.back(), static_cast<std::size_t>(config.key_dim), head.scores);
    expect_spectrum_of(values.back(), static_cast<std::size_t>(config.value_size()), head.values);
  }
  for (std::size_t h = 0; h < scores.size(); ++h) {
    for (std::size_t g = 0; g < scores.size(); ++g) {
      const double seen = result.score_similarity.view()(h, g);
      RC_ASSERT(std::abs(seen - cosine(scores[h], scores[g])) <= 2e-6);
      const double value_seen = result.value_similarity.view()(h, g);
      RC_ASSERT(std::abs(value_seen - cosine(values[h], values[g])) <= 2e-6);
    }
  }
}

// W_q·R and W_k·R⁻ᵀ have the same product: the head is the same, and so is all that is said of it. R
// is a signed permutation with powers of two, so that it rounds nothing and the product is exact.
RC_GTEST_PROP(InspectHeadsProperty, FactorsDoNotMatter, (std::uint64_t seed)) {
  Dice dice(seed);
  AttentionConfig config = any_config(dice);
  config.num_kv_heads = config.num_heads;
  const LayerParts layer = random_layer(config, seed);
  LayerParts turned = layer;
  const std::int64_t dk = config.key_dim;
  for (std::int64_t h = 0; h < config.num_heads; ++h) {
    std::vector<std::int64_t> order;
    for (std::int64_t j = 0; j < dk; ++j) order.push_back(j);
    dice.shuffle(order);
    for (std::int64_t j = 0; j < dk; ++j) {
      const float factor =
          std::ldexp(dice.chance(0.5) ? 1.0F : -1.0F, static_cast<int>(dice.between(-12, 12)));
      const std::int64_t from = h * dk + order[static_cast<std::size_t>(j)];
      const auto move = [&](const Tensor& source, Tensor& target, float by) {
        const std::int64_t columns = config.num_heads * dk;
        for (std::int64_t i = 0; i < source.size() / columns; ++i) {
          target.data()[i * columns + h * dk + j] = by * source.data()[i * columns + from];
        }
      };
      move(layer.weights.query_kernel, turned.weights.query_kernel, factor);
      move(layer.weights.key_kernel, turned.weights.key_kernel, 1.0F / factor);
      if (config.use_bias) move(layer.weights.query_bias, turned.weights.query_bias, factor);
    }
  }
  const LayerSpectra a = inspect_heads(layer, {.threads = 1});
  const LayerSpectra b = inspect_heads(turned, {.threads = 1});
  for (std::size_t h = 0; h < a.heads.size(); ++h) {
    const double scale = a.heads[h].scores.spectral_norm;
    for (std::size_t i = 0; i < a.heads[h].scores.singular_values.size(); ++i) {
      RC_ASSERT(std::abs(a.heads[h].scores.singular_values[i] -
                         b.heads[h].scores.singular_values[i]) <= 1e-9 * scale);
    }
    RC_ASSERT(std::abs(a.heads[h].score_spread - b.heads[h].score_spread) <=
              1e-9 * a.heads[h].score_spread);
    for (std::size_t g = 0; g < a.heads.size(); ++g) {
      RC_ASSERT(std::abs(a.score_similarity.view()(h, g) - b.score_similarity.view()(h, g)) <=
                2e-6F);
    }
  }
}

}  // namespace
}  // namespace headwise::test_support
