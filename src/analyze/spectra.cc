#include "headwise/spectra.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "analyze/similarity.h"
#include "analyze/spectra_svd.h"
#include "analyze/spectra_tasks.h"
#include "analyze/spectrum.h"
#include "base/check.h"
#include "headwise/context.h"

namespace headwise {

namespace {

using analyze::Progress;
using analyze::to_matrix;
using Eigen::MatrixXd;

constexpr std::int64_t kMostHeads =
    4096;  // similarities are H² numbers; real layers have 200 at most

void check_arguments(const LayerParts& layer, const SpectraOptions& options) {
  validate(layer.config);
  validate(layer.config, layer.weights);
  if (layer.config.num_heads > kMostHeads) {
    base::fail("inspect_heads", "layer", "at most " + std::to_string(kMostHeads) + " heads",
               std::to_string(layer.config.num_heads));
  }
  if (options.threads < 0 || options.threads > 1024) {
    base::fail("inspect_heads", "threads", "0 … 1024", std::to_string(options.threads));
  }
}

bool all_finite(const ConstView& view) { return to_matrix(view).allFinite(); }

// The part of a bias that belongs to one head, as a row; no bias: zeros.
Eigen::RowVectorXd bias_part(const Tensor& bias, std::int64_t index, std::int64_t size) {
  if (bias.size() == 0) return Eigen::RowVectorXd::Zero(size);
  return to_matrix(bias.view().sliced(0, index * size, (index + 1) * size).broadcast(0, 1));
}

// ---- one head ----------------------------------------------------------------------------------

// Norms and biases: everything but the spectra.
HeadSpectra describe_head(const LayerParts& layer, std::int64_t head) {
  const AttentionConfig& config = layer.config;
  const HeadViews views = head_views(config, layer.weights, head);
  HeadSpectra result;
  result.kv_head = head / (config.num_heads / config.kv_heads());
  const auto query_bias = bias_part(layer.weights.query_bias, head, config.key_dim);
  const auto key_bias = bias_part(layer.weights.key_bias, result.kv_head, config.key_dim);
  const auto value_bias = bias_part(layer.weights.value_bias, result.kv_head, config.value_size());
  result.finite = all_finite(views.query_kernel) && all_finite(views.key_kernel) &&
                  all_finite(views.value_kernel) && all_finite(views.output_kernel) &&
                  query_bias.allFinite() && key_bias.allFinite() && value_bias.allFinite();
  if (!result.finite) return result;
  const MatrixXd key = to_matrix(views.key_kernel);
  const MatrixXd output = to_matrix(views.output_kernel);
  result.query_norm = to_matrix(views.query_kernel).norm();
  result.key_norm = key.norm();
  result.value_norm = to_matrix(views.value_kernel).norm();
  result.output_norm = output.norm();
  result.key_preference = (query_bias * key.transpose()).norm();
  result.constant_output = (value_bias * output).norm();
  return result;
}

// ---- all heads ---------------------------------------------------------------------------------

// Both products are treated alike: first·secondᵀ, and where its results go.
struct Factors {
  ConstView first;
  ConstView second;
};
struct Product {
  Factors (*factors)(const HeadViews& views);
  Spectrum HeadSpectra::*spectrum;
  Tensor LayerSpectra::*similarity;
  std::vector<HeadPair> LayerSpectra::*alike;
};
constexpr Product kScores = {[](const HeadViews& views) {
                               return Factors{views.query_kernel, views.key_kernel};
                             },
                             &HeadSpectra::scores, &LayerSpectra::score_similarity,
                             &LayerSpectra::alike_scores};
constexpr Product kValues = {
    [](const HeadViews& views) {
      return Factors{views.value_kernel, views.output_kernel.permuted({1, 0})};
    },
    &HeadSpectra::values, &LayerSpectra::value_similarity, &LayerSpectra::alike_values};

class Inspection {
 public:
  Inspection(const LayerParts& layer, const SpectraOptions& options)
      : layer_(layer),
        options_(options),
        context_(options.threads == 0 ? Context() : Context(options.threads)),
        // Two SVDs and two rows of similarities for each head.
        progress_(options.progress, 4 * layer.config.num_heads),
        heads_(layer.config.num_heads) {
    result_.heads.resize(static_cast<std::size_t>(heads_));
  }

  LayerSpectra run() {
    analyze::for_each_head(heads_, context_.threads(),
                           [&](std::int64_t h) { head(h) = describe_head(layer_, h); });
    measure(kScores);
    measure(kValues);
    judge();
    return std::move(result_);
  }

 private:
  HeadSpectra& head(std::int64_t index) { return result_.heads[static_cast<std::size_t>(index)]; }
  void measure(const Product& product);
  void judge();

  const LayerParts& layer_;
  const SpectraOptions& options_;
  Context context_;
  Progress progress_;
  std::int64_t heads_;
  LayerSpectra result_;
};

void Inspection::measure(const Product& product) {
  const auto factors_of = [&](std::int64_t h) {
    return product.factors(head_views(layer_.config, layer_.weights, h));
  };
  const Factors any = factors_of(0);
  const std::int64_t rows = any.first.extent(0);
  const std::int64_t columns = any.second.extent(0);
  const std::int64_t terms = std::min({rows, columns, any.first.extent(1)});
  analyze::UnitProducts units(heads_, terms, rows, columns);
  analyze::for_each_head(heads_, context_.threads(), [&](std::int64_t h) {
    if (head(h).finite) {
      const Factors factors = factors_of(h);
      const auto svd = analyze::svd_of_product(to_matrix(factors.first), to_matrix(factors.second));
      head(h).*product.spectrum =
          analyze::spectrum_of({svd.values.begin(), svd.values.end()}, std::max(rows, columns));
      units.set(h, svd);
    }
    progress_.step();
  });
  result_.*product.similarity = units.similarity(context_, progress_);
  result_.*product.alike = alike_heads(result_.*product.similarity, options_.alike_above);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

void Inspection::judge() {
  std::vector<double> norms;
  for (const HeadSpectra& head : result_.heads) {
    if (head.finite) norms.push_back(head.values.frobenius_norm);
  }
  result_.median_value_norm = median(std::move(norms));
  for (HeadSpectra& head : result_.heads) {
    if (!head.finite) continue;
    const double norm = head.values.frobenius_norm;
    head.dead = norm == 0.0 || norm < options_.dead_below * result_.median_value_norm;
    // Normalised queries and keys give scores whose size does not follow from the kernels.
    if (layer_.config.qk_norm != QkNorm::None) continue;
    head.score_spread = std::abs(static_cast<double>(layer_.config.score_scale())) *
                        std::hypot(head.scores.frobenius_norm, head.key_preference);
    head.uniform = head.score_spread < options_.uniform_below;
  }
}

}  // namespace

LayerSpectra inspect_heads(const LayerParts& layer, const SpectraOptions& options) {
  check_arguments(layer, options);
  return Inspection(layer, options).run();
}

}  // namespace headwise
