// From the library's views and tensors to the oracle's arrays.
#include <array>

#include "support/oracle.h"

namespace headwise::oracle {
namespace {

// Calls visit(value) for every element in row-major order, whatever the strides.
template <typename Visit>
void for_each_in_order(const ConstView& view, const Visit& visit) {
  std::array<std::int64_t, kMaxRank> index{};
  for (std::int64_t n = 0; n < view.size(); ++n) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < view.rank(); ++axis)
      offset += index[static_cast<std::size_t>(axis)] * view.stride(axis);
    visit(view.data()[offset]);
    for (int axis = view.rank() - 1; axis >= 0; --axis) {
      if (++index[static_cast<std::size_t>(axis)] < view.extent(axis)) break;
      index[static_cast<std::size_t>(axis)] = 0;
    }
  }
}

template <typename Scalar>
Array<Scalar> copy_of(const ConstView& view) {
  Array<Scalar> array(std::vector<std::int64_t>(view.shape().begin(), view.shape().end()));
  array.values.clear();
  for_each_in_order(view, [&](float value) { array.values.emplace_back(value); });
  return array;
}

}  // namespace

template <typename Scalar>
Array<Scalar> head_rows(const ConstView& view, const AttentionOptions& options) {
  const bool batched = view.rank() == 4;
  ConstView ordered = view;
  if (options.layout == Layout::HeadsFirst)
    ordered = batched ? view.permuted({0, 2, 1, 3}) : view.permuted({1, 0, 2});
  Array<Scalar> array = copy_of<Scalar>(ordered);
  if (batched) array.shape = {array.shape[0] * array.shape[1], array.shape[2], array.shape[3]};
  return array;
}

template <typename Scalar>
Array<Scalar> feature_rows(const ConstView& view) {
  Array<Scalar> array = copy_of<Scalar>(view);
  if (view.rank() == 3) array.shape = {array.shape[0] * array.shape[1], array.shape[2]};
  return array;
}

template <typename Scalar>
std::vector<Array<Scalar>> bias_values(const std::vector<Bias>& bias) {
  std::vector<Array<Scalar>> arrays;
  for (const Bias& one : bias) arrays.push_back(copy_of<Scalar>(one.values.view()));
  return arrays;
}

template <typename Scalar>
HeadTensors<Scalar> head_tensors(const AttentionInputs& inputs, const AttentionOptions& options) {
  return {head_rows<Scalar>(inputs.query, options), head_rows<Scalar>(inputs.key, options),
          head_rows<Scalar>(inputs.value, options), bias_values<Scalar>(options.bias)};
}

template <typename Scalar>
const std::vector<WeightName<Scalar>>& weight_names() {
  using Ours = AttentionWeights;
  using Its = LayerWeights<Scalar>;
  static const std::vector<WeightName<Scalar>> names = {
      {"query_kernel", &Ours::query_kernel, &Its::query_kernel},
      {"query_bias", &Ours::query_bias, &Its::query_bias},
      {"key_kernel", &Ours::key_kernel, &Its::key_kernel},
      {"key_bias", &Ours::key_bias, &Its::key_bias},
      {"value_kernel", &Ours::value_kernel, &Its::value_kernel},
      {"value_bias", &Ours::value_bias, &Its::value_bias},
      {"gate_kernel", &Ours::gate_kernel, &Its::gate_kernel},
      {"gate_bias", &Ours::gate_bias, &Its::gate_bias},
      {"output_kernel", &Ours::output_kernel, &Its::output_kernel},
      {"output_bias", &Ours::output_bias, &Its::output_bias},
      {"query_norm", &Ours::query_norm, &Its::query_norm},
      {"key_norm", &Ours::key_norm, &Its::key_norm},
      {"extra_key", &Ours::extra_key, &Its::extra_key},
      {"extra_value", &Ours::extra_value, &Its::extra_value},
  };
  return names;
}

template <typename Scalar>
LayerTensors<Scalar> layer_tensors(const AttentionInputs& inputs, const ForwardOptions& options,
                                   const AttentionWeights& weights) {
  const ConstView& key = inputs.key.present() ? inputs.key : inputs.query;
  const ConstView& value = inputs.value.present() ? inputs.value : key;
  LayerTensors<Scalar> tensors{feature_rows<Scalar>(inputs.query),
                               feature_rows<Scalar>(key),
                               feature_rows<Scalar>(value),
                               bias_values<Scalar>(options.bias),
                               {}};
  for (const auto& name : weight_names<Scalar>()) {
    tensors.weights.*name.oracle = copy_of<Scalar>((weights.*name.library).view());
  }
  return tensors;
}

#define HEADWISE_ORACLE_INSTANTIATE(Scalar)                                                   \
  template Array<Scalar> head_rows(const ConstView&, const AttentionOptions&);                \
  template Array<Scalar> feature_rows(const ConstView&);                                      \
  template std::vector<Array<Scalar>> bias_values(const std::vector<Bias>&);                  \
  template HeadTensors<Scalar> head_tensors(const AttentionInputs&, const AttentionOptions&); \
  template const std::vector<WeightName<Scalar>>& weight_names();                             \
  template LayerTensors<Scalar> layer_tensors(const AttentionInputs&, const ForwardOptions&,  \
                                              const AttentionWeights&);
HEADWISE_ORACLE_INSTANTIATE(double)
HEADWISE_ORACLE_INSTANTIATE(float)
HEADWISE_ORACLE_INSTANTIATE(Rounded)
HEADWISE_ORACLE_INSTANTIATE(Jittered)
#undef HEADWISE_ORACLE_INSTANTIATE

}  // namespace headwise::oracle
