// Results as Python has them: their arrays own the library's tensors, without a copy.
#pragma once

#include <optional>
#include <vector>

#include "arrays.h"
#include "headwise/attention.h"
#include "headwise/layer.h"

namespace headwise::python {

// headwise.TopWeights.
struct TopWeightsValue {
  LazyArray<float> values;
  LazyArray<std::int64_t> indices;
};

// headwise.WeightStatistics.
struct StatisticsValue {
  LazyArray<float> entropy, mean_distance, first_key_mass;
};

// headwise.AttentionResult.
struct ResultValue {
  // `out`: the caller's output buffer, or None.
  ResultValue(AttentionResult&& result, nb::object out);

  LazyArray<float> output, log_sum_exp, weights;
  std::optional<TopWeightsValue> top;
  std::optional<StatisticsValue> statistics;
  AttentionResult kept;  // row_reference, row_sum and saved: what a backward reads
};

// headwise.AttentionGradients.
struct GradientsValue {
  GradientsValue(Tensor&& query_, Tensor&& key_, Tensor&& value_, std::vector<Tensor>&& bias_);

  LazyArray<float> query, key, value;
  std::vector<LazyArray<float>> bias;
};

// headwise.LayerGradients.
class LayerGradientsValue : public GradientsValue {
 public:
  explicit LayerGradientsValue(LayerGradients&& gradients);
  [[nodiscard]] nb::object weights();

 private:
  AttentionWeights tensors_;
  nb::object dict_;
};

}  // namespace headwise::python
