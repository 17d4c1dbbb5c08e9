#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "headwise/layouts.h"
#include "headwise/linear.h"

namespace headwise {

namespace {

template <typename T>
double relative_error(std::span<const T> a, std::span<const T> b) {
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    difference += (x - y) * (x - y);
    size += x * x;
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / size);
}

// Of weights (B, H, T, S).
std::vector<double> changes_by_head(const Tensor& a, const Tensor& b) {
  std::vector<double> changes(static_cast<std::size_t>(a.extent(1)), 0.0);
  const auto matrix = static_cast<std::size_t>(a.extent(2) * a.extent(3));
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    double& largest = changes[i / matrix % changes.size()];
    largest = std::max(
        largest, std::abs(static_cast<double>(a.values()[i]) - static_cast<double>(b.values()[i])));
  }
  return changes;
}

// Queries and keys of one layer, projected.
class Scores {
 public:
  Scores(const LayerParts& layer, const AttentionInputs& inputs)
      : config_(layer.config),
        query_(linear(inputs.query, layer.weights.query_kernel, bias(layer.weights.query_bias))),
        key_(linear(inputs.key.present() ? inputs.key : inputs.query, layer.weights.key_kernel,
                    bias(layer.weights.key_bias))) {}

  // Of one head: (batch · queries · keys), each row of keys about its mean.
  [[nodiscard]] std::vector<double> of_head(std::int64_t head) const {
    std::vector<double> scores;
    for (std::int64_t batch = 0; batch < query_.extent(0); ++batch) {
      for (std::int64_t i = 0; i < query_.extent(1); ++i) append_row(scores, batch, i, head);
    }
    return scores;
  }

 private:
  static ConstView bias(const Tensor& tensor) {
    return tensor.size() > 0 ? tensor.view() : ConstView();
  }

  void append_row(std::vector<double>& scores, std::int64_t batch, std::int64_t i,
                  std::int64_t head) const {
    const std::int64_t keys = key_.extent(1);
    const std::int64_t kv_head = head / (config_.num_heads / config_.kv_heads());
    const ConstView query = query_.view();
    const ConstView key = key_.view();
    std::vector<double> row(static_cast<std::size_t>(keys), 0.0);
    double mean = 0.0;
    for (std::int64_t j = 0; j < keys; ++j) {
      double& score = row[static_cast<std::size_t>(j)];
      for (std::int64_t d = 0; d < config_.key_dim; ++d) {
        score += static_cast<double>(query(batch, i, head * config_.key_dim + d)) *
                 static_cast<double>(key(batch, j, kv_head * config_.key_dim + d));
      }
      score *= static_cast<double>(config_.score_scale());
      mean += score / static_cast<double>(keys);
    }
    for (const double score : row) scores.push_back(score - mean);
  }

  const AttentionConfig& config_;
  Tensor query_;
  Tensor key_;
};

std::vector<double> score_errors(const LayerParts& a, const AttentionInputs& inputs_of_a,
                                 const LayerParts& b, const AttentionInputs& inputs_of_b) {
  const bool normed = a.config.qk_norm != QkNorm::None || b.config.qk_norm != QkNorm::None;
  if (normed || a.config.num_heads != b.config.num_heads) return {};
  const Scores x(a, inputs_of_a);
  const Scores y(b, inputs_of_b);
  std::vector<double> errors;
  for (std::int64_t head = 0; head < a.config.num_heads; ++head) {
    const std::vector<double> of_a = x.of_head(head);
    const std::vector<double> of_b = y.of_head(head);
    errors.push_back(relative_error<double>(of_a, of_b));
  }
  return errors;
}

}  // namespace

LayerDifference compare_layers(const LayerParts& a, const AttentionInputs& inputs_of_a,
                               const LayerParts& b, const AttentionInputs& inputs_of_b) {
  if (inputs_of_a.query.rank() != 3) {
    base::fail("compare_layers", "inputs_of_a", "(batch, tokens, features)",
               inputs_of_a.query.shape().to_string());
  }
  const ForwardOptions options{.weights = all_weights()};
  const AttentionResult x = MultiHeadAttention(a.config, a.weights).forward(inputs_of_a, options);
  const AttentionResult y = MultiHeadAttention(b.config, b.weights).forward(inputs_of_b, options);
  if (!(x.output.shape() == y.output.shape())) {
    base::fail("compare_layers", "b", "outputs of shape " + x.output.shape().to_string(),
               y.output.shape().to_string());
  }
  LayerDifference result;
  result.same_bits =
      std::memcmp(x.output.data(), y.output.data(), x.output.values().size_bytes()) == 0;
  result.output_error = relative_error(std::as_const(x.output).values(), y.output.values());
  if (x.weights.shape() == y.weights.shape()) {
    result.weight_changes = changes_by_head(x.weights, y.weights);
  }
  result.score_errors = score_errors(a, inputs_of_a, b, inputs_of_b);
  return result;
}

}  // namespace headwise
