#include "support/alone.h"

namespace headwise::test_support {
namespace {

// Where one sequence is in a batch.
struct Cut {
  const std::optional<PackedLengths>& packed;
  std::int64_t sequence;
  std::int64_t tail;  // of packed.key's rows, not counted in mask arrays

  [[nodiscard]] RowRange queries() const { return range(packed->query); }
  [[nodiscard]] RowRange keys() const {
    return range(packed->key.empty() ? packed->query : packed->key);
  }
  // Of the caller's keys, as masks count them.
  [[nodiscard]] RowRange mask_keys() const {
    const RowRange rows = keys();
    return {rows.begin - sequence * tail, rows.end - (sequence + 1) * tail};
  }

 private:
  [[nodiscard]] RowRange range(const std::vector<std::int64_t>& starts) const {
    const auto b = static_cast<std::size_t>(sequence);
    return {starts[b], starts[b + 1]};
  }
};

// A tensor's rows: a padded batch loses its batch axis, a packed one is sliced along `row_axis`.
template <typename T>
TensorView<T> rows_of(const TensorView<T>& view, const Cut& cut, int row_axis, bool of_keys) {
  if (!cut.packed) return view.at(0, cut.sequence);
  const RowRange rows = of_keys ? cut.keys() : cut.queries();
  return view.sliced(row_axis, rows.begin, rows.end);
}

// One axis of a mask or bias array; what is broadcast stays.
template <typename T>
TensorView<T> sliced_unless_broadcast(const TensorView<T>& view, int axis, RowRange range) {
  return view.extent(axis) == 1 ? view : view.sliced(axis, range.begin, range.end);
}

template <typename T>
TensorView<T> array_of(const TensorView<T>& view, std::optional<Axes> axes, const Cut& cut) {
  const Axes kind = axes.value_or(view.rank() == 2 ? Axes::QueryKey : Axes::BatchHeadQueryKey);
  const bool has_batch = kind != Axes::QueryKey && kind != Axes::HeadQueryKey;
  if (!cut.packed) {
    return has_batch ? sliced_unless_broadcast(view, 0, {cut.sequence, cut.sequence + 1}) : view;
  }
  const bool has_query = kind != Axes::BatchKey;
  const bool has_key = kind != Axes::BatchQuery;
  const int last = view.rank() - 1;
  const RowRange keys = cut.mask_keys();
  TensorView<T> part = view;
  if (has_query) part = sliced_unless_broadcast(part, has_key ? last - 1 : last, cut.queries());
  if (has_key) part = sliced_unless_broadcast(part, last, {0, keys.end - keys.begin});
  return part;
}

SharedView<std::int64_t> ids_of(const SharedView<std::int64_t>& ids, const Cut& cut,
                                RowRange rows) {
  if (ids.view().rank() == 2) return ids.view().sliced(0, cut.sequence, cut.sequence + 1);
  return cut.packed ? ids.view().sliced(0, rows.begin, rows.end) : ids.view();
}

Mask mask_of(const Mask& batch, const Cut& cut) {
  Mask mask = batch;
  const std::int64_t b = cut.sequence;
  if (auto* offsets = std::get_if<std::vector<std::int64_t>>(&mask.positions)) {
    if (offsets->size() > 1) *offsets = {(*offsets)[static_cast<std::size_t>(b)]};
  }
  for (auto& lengths : mask.key_lengths) lengths = lengths.view().sliced(0, b, b + 1);
  for (auto& lengths : mask.query_lengths) lengths = lengths.view().sliced(0, b, b + 1);
  for (KeepMask& keep : mask.keeps) keep.values = array_of(keep.values.view(), keep.axes, cut);
  for (Segments& segments : mask.segments) {
    segments.query = ids_of(segments.query, cut, cut.packed ? cut.queries() : RowRange{});
    segments.key = ids_of(segments.key, cut, cut.packed ? cut.mask_keys() : RowRange{});
  }
  return mask;
}

std::vector<Bias> biases_of(const std::vector<Bias>& batch, const Cut& cut) {
  std::vector<Bias> biases;
  for (const Bias& bias : batch)
    biases.emplace_back(array_of(bias.values.view(), bias.axes, cut), bias.axes);
  return biases;
}

std::vector<std::int64_t> id_of(const std::vector<std::int64_t>& ids, std::int64_t sequence) {
  if (ids.empty()) return {sequence};
  return {ids[static_cast<std::size_t>(sequence)]};
}

std::int64_t count_of(const std::optional<PackedLengths>& packed, std::int64_t batch) {
  return packed ? static_cast<std::int64_t>(packed->query.size()) - 1 : batch;
}

}  // namespace

std::int64_t sequence_count(const OpCase& batch) {
  return count_of(batch.options.packed, batch.inputs.query.extent(0));
}

std::int64_t sequence_count(const LayerCase& batch) {
  return count_of(batch.options.packed, batch.inputs.query.extent(0));
}

OpAlone alone(const OpCase& batch, std::int64_t sequence) {
  const AttentionOptions& all = batch.options;
  const Cut cut{all.packed, sequence, all.unmasked_tail};
  const int rows = all.layout == Layout::HeadsFirst ? 1 : 0;
  OpAlone one{
      {rows_of(batch.inputs.query, cut, rows, false), rows_of(batch.inputs.key, cut, rows, true),
       rows_of(batch.inputs.value, cut, rows, true)},
      rows_of(batch.output_gradient, cut, rows, false),
      all};
  one.options.packed.reset();
  one.options.out = {};
  one.options.mask = mask_of(all.mask, cut);
  one.options.bias = biases_of(all.bias, cut);
  one.options.dropout.sequence_ids = id_of(all.dropout.sequence_ids, sequence);
  return one;
}

LayerAlone alone(const LayerCase& batch, std::int64_t sequence) {
  const ForwardOptions& all = batch.options;
  const Cut cut{all.packed, sequence, 0};
  LayerAlone one{{}, rows_of(batch.output_gradient, cut, 0, false), all};
  one.inputs.query = rows_of(batch.inputs.query, cut, 0, false);
  if (batch.inputs.key.present()) one.inputs.key = rows_of(batch.inputs.key, cut, 0, true);
  if (batch.inputs.value.present()) one.inputs.value = rows_of(batch.inputs.value, cut, 0, true);
  one.options.packed.reset();
  one.options.out = {};
  one.options.mask = mask_of(all.mask, cut);
  one.options.bias = biases_of(all.bias, cut);
  one.options.sequence_ids = id_of(all.sequence_ids, sequence);
  return one;
}

Tensor part_of(const Tensor& tensor, const std::optional<PackedLengths>& packed,
               std::int64_t sequence, int rows, bool of_keys) {
  return Tensor::copy_of(rows_of(tensor.view(), Cut{packed, sequence, 0}, rows, of_keys));
}

}  // namespace headwise::test_support
