#include "contract/cut_rows.h"

#include <algorithm>

namespace headwise::test_support {
namespace {

template <typename T>
TensorView<T> array_rows(const TensorView<T>& view, std::optional<Axes> axes, std::int64_t begin,
                         std::int64_t end) {
  const Axes kind = axes.value_or(view.rank() == 2 ? Axes::QueryKey : Axes::BatchHeadQueryKey);
  if (kind == Axes::BatchKey) return view;
  const int axis = kind == Axes::BatchQuery ? view.rank() - 1 : view.rank() - 2;
  return view.extent(axis) == 1 ? view : view.sliced(axis, begin, end);
}

std::int64_t first_position(const Mask& mask) {
  const auto* offsets = std::get_if<std::vector<std::int64_t>>(&mask.positions);
  return offsets == nullptr ? 0 : offsets->front();
}

Mask mask_rows(const Mask& whole, std::int64_t begin, std::int64_t end) {
  Mask mask = whole;
  mask.positions = std::vector<std::int64_t>{first_position(whole) + begin};
  for (auto& lengths : mask.key_lengths) {  // (1) or (1,T)
    if (lengths.view().rank() == 2 && lengths.view().extent(1) > 1) {
      lengths = lengths.view().sliced(1, begin, end);
    }
  }
  for (auto& lengths : mask.query_lengths) {
    lengths = SharedView<std::int64_t>(
        {std::clamp<std::int64_t>(lengths.view()(0) - begin, 0, end - begin)});
  }
  for (KeepMask& keep : mask.keeps) {
    keep.values = array_rows(keep.values.view(), keep.axes, begin, end);
  }
  for (Segments& segments : mask.segments) {
    const auto& ids = segments.query.view();
    segments.query = ids.sliced(ids.rank() - 1, begin, end);
  }
  return mask;
}

std::vector<Bias> bias_rows(const std::vector<Bias>& whole, std::int64_t begin, std::int64_t end) {
  std::vector<Bias> biases;
  for (const Bias& bias : whole) {
    biases.emplace_back(array_rows(bias.values.view(), bias.axes, begin, end), bias.axes);
  }
  return biases;
}

}  // namespace

OpAlone cut_rows(const OpCase& whole, std::int64_t begin, std::int64_t end) {
  const int rows = whole.options.layout == Layout::HeadsFirst ? 1 : 0;
  OpAlone cut{{whole.inputs.query.sliced(rows, begin, end), whole.inputs.key, whole.inputs.value},
              whole.output_gradient.sliced(rows, begin, end),
              whole.options};
  cut.options.mask = mask_rows(whole.options.mask, begin, end);
  cut.options.bias = bias_rows(whole.options.bias, begin, end);
  return cut;
}

LayerAlone cut_rows(const LayerCase& whole, std::int64_t begin, std::int64_t end) {
  const AttentionInputs& inputs = whole.inputs;
  const ConstView key = inputs.key.present() ? inputs.key : inputs.query;
  LayerAlone cut{
      {inputs.query.sliced(0, begin, end), key, inputs.value.present() ? inputs.value : key},
      whole.output_gradient.sliced(0, begin, end),
      whole.options};
  cut.options.mask = mask_rows(whole.options.mask, begin, end);
  cut.options.bias = bias_rows(whole.options.bias, begin, end);
  return cut;
}

Results cut_rows(const Results& whole, int row_axis, std::int64_t begin, std::int64_t end) {
  Results results;
  for (const auto& [name, tensor] : whole) {
    const bool like_output = name == "output" || name == "query gradient";
    const bool of_all_rows = name.ends_with("gradient") || name.starts_with("score bias");
    if (of_all_rows && !like_output) continue;
    const int axis = like_output ? row_axis : 1;  // the others are (Hq, T, …)
    results[name] = Tensor::copy_of(tensor.view().sliced(axis, begin, end));
  }
  return results;
}

}  // namespace headwise::test_support
