#include "contract/padded.h"

#include <algorithm>
#include <limits>

namespace headwise::test_support {
namespace {

float garbage(Dice& dice) {
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr float kValues[] = {
      std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 3e38F, -1e30F, 7.0F};
  return kValues[dice.between(0, 5)];
}

std::int64_t longest(const std::vector<std::int64_t>& starts) {
  std::int64_t length = 0;
  for (std::size_t b = 1; b < starts.size(); ++b) {
    length = std::max(length, starts[b] - starts[b - 1]);
  }
  return length;
}

class Padding {
 public:
  Padding(const PackedLengths& lengths, std::uint64_t seed)
      : query_(lengths.query),
        key_(lengths.key.empty() ? lengths.query : lengths.key),
        dice_(seed),
        queries_(longest(query_) + dice_.between(0, 20)),
        keys_(longest(key_) + dice_.between(0, 300)) {}

  // For self-attention, where queries and keys are the same rows.
  void share_rows() { keys_ = queries_; }

  // A tensor whose axis `row_axis` has all sequences' rows.
  ConstView rows(const ConstView& packed, int row_axis, bool of_keys, Memory& memory,
                 bool zeros = false) {
    const auto& starts = of_keys ? key_ : query_;
    std::vector<std::int64_t> extents(packed.shape().begin(), packed.shape().end());
    extents[static_cast<std::size_t>(row_axis)] = of_keys ? keys_ : queries_;
    extents.insert(extents.begin(), batch());
    auto tensor = std::make_shared<Tensor>(Shape(extents));
    for (float& x : tensor->values()) x = zeros ? 0.0F : garbage(dice_);
    for (std::int64_t b = 0; b < batch(); ++b) {
      const auto at = static_cast<std::size_t>(b);
      const Tensor own = Tensor::copy_of(packed.sliced(row_axis, starts[at], starts[at + 1]));
      const MutableView place =
          tensor->view().at(0, b).sliced(row_axis, 0, starts[at + 1] - starts[at]);
      std::int64_t next = 0;
      for_each_offset(place,
                      [&](std::int64_t offset) { place.data()[offset] = own.data()[next++]; });
    }
    memory.push_back(tensor);
    return *tensor;
  }

  Mask mask(const Mask& packed) {
    Mask mask = packed;
    if (std::holds_alternative<std::monostate>(mask.positions)) {
      mask.positions = Alignment::TopLeft;  // what it means where lengths are equal
    }
    for (KeepMask& keep : mask.keeps) {
      keep = {array(keep.values.view(), keep.axes, [] { return true; }), Axes::BatchHeadQueryKey};
    }
    for (Segments& segments : mask.segments) {
      segments = {ids(segments.query.view(), query_, queries_),
                  ids(segments.key.view(), key_, keys_)};
    }
    return mask & valid_lengths(lengths(key_)) & query_lengths(lengths(query_));
  }

  std::vector<Bias> biases(const std::vector<Bias>& packed) {
    std::vector<Bias> biases;
    for (const Bias& bias : packed) {
      biases.emplace_back(array(bias.values.view(), bias.axes, [&] { return garbage(dice_); }),
                          Axes::BatchHeadQueryKey);
    }
    return biases;
  }

 private:
  [[nodiscard]] std::int64_t batch() const { return static_cast<std::int64_t>(query_.size()) - 1; }

  static std::vector<std::int64_t> lengths(const std::vector<std::int64_t>& starts) {
    std::vector<std::int64_t> result;
    for (std::size_t b = 1; b < starts.size(); ++b) result.push_back(starts[b] - starts[b - 1]);
    return result;
  }

  static IndexTensor ids(const TensorView<const std::int64_t>& packed,
                         const std::vector<std::int64_t>& starts, std::int64_t rows) {
    const auto count = static_cast<std::int64_t>(starts.size()) - 1;
    IndexTensor result({count, rows});
    for (std::int64_t b = 0; b < count; ++b) {
      const std::int64_t begin = starts[static_cast<std::size_t>(b)];
      const std::int64_t end = starts[static_cast<std::size_t>(b) + 1];
      for (std::int64_t i = begin; i < end; ++i) result.view()(b, i - begin) = packed(i);
    }
    return result;
  }

  // (B, heads or 1, T, S) of an array over (all rows, keys of the longest).
  template <typename T, typename Fill>
  BasicTensor<T> array(const TensorView<const T>& packed, std::optional<Axes> axes, Fill fill) {
    const Axes kind = axes.value_or(packed.rank() == 2 ? Axes::QueryKey : Axes::BatchHeadQueryKey);
    TensorView<const T> full = packed;  // (heads, rows, keys), each perhaps 1
    if (kind == Axes::BatchHeadQueryKey) full = packed.at(0, 0);
    if (kind == Axes::BatchQueryKey) full = packed;
    if (kind == Axes::QueryKey) full = packed.broadcast(0, 1);
    if (kind == Axes::BatchKey) full = packed.broadcast(1, 1);
    if (kind == Axes::BatchQuery) full = packed.broadcast(2, 1);
    BasicTensor<T> result({batch(), full.extent(0), queries_, keys_});
    for (auto& x : result.values()) x = fill();
    const auto place = [&](int axis, std::int64_t i) { return full.extent(axis) == 1 ? 0 : i; };
    for (std::int64_t b = 0; b < batch(); ++b) {
      const auto at = static_cast<std::size_t>(b);
      for (std::int64_t h = 0; h < full.extent(0); ++h) {
        for (std::int64_t t = query_[at]; t < query_[at + 1]; ++t) {
          for (std::int64_t s = 0; s < key_[at + 1] - key_[at]; ++s) {
            result.view()(b, h, t - query_[at], s) = full(h, place(1, t), place(2, s));
          }
        }
      }
    }
    return result;
  }

  std::vector<std::int64_t> query_, key_;
  Dice dice_;
  std::int64_t queries_, keys_;
};

}  // namespace

OpCase padded(const OpCase& packed) {
  OpCase c;
  Padding padding(*packed.options.packed, packed.recipe.seed);
  const int rows = packed.options.layout == Layout::HeadsFirst ? 1 : 0;
  c.recipe = packed.recipe;
  c.options = packed.options;
  c.options.packed.reset();
  c.inputs = {padding.rows(packed.inputs.query, rows, false, c.memory),
              padding.rows(packed.inputs.key, rows, true, c.memory),
              padding.rows(packed.inputs.value, rows, true, c.memory)};
  c.output_gradient = padding.rows(packed.output_gradient, rows, false, c.memory);
  c.options.mask = padding.mask(packed.options.mask);
  c.options.bias = padding.biases(packed.options.bias);
  return c;
}

LayerCase padded(const LayerCase& packed) {
  LayerCase c;
  Padding padding(*packed.options.packed, packed.recipe.seed);
  const AttentionInputs& inputs = packed.inputs;
  if (!inputs.key.present()) padding.share_rows();
  c.recipe = packed.recipe;
  c.config = packed.config;
  c.weights = packed.weights;
  c.options = packed.options;
  c.options.packed.reset();
  c.inputs.query = padding.rows(inputs.query, 0, false, c.memory);
  if (inputs.key.present()) c.inputs.key = padding.rows(inputs.key, 0, true, c.memory);
  if (inputs.value.present()) c.inputs.value = padding.rows(inputs.value, 0, true, c.memory);
  // A padded query has an output, the output bias: its gradient counts.
  c.output_gradient = padding.rows(packed.output_gradient, 0, false, c.memory, /*zeros=*/true);
  c.options.mask = padding.mask(packed.options.mask);
  c.options.bias = padding.biases(packed.options.bias);
  return c;
}

Results unpadded(const Results& padded, const PackedLengths& lengths, Layout layout) {
  Results results;
  for (const auto& [name, tensor] : padded) {
    const bool of_keys = name == "key gradient" || name == "value gradient";
    const bool like_output = of_keys || name == "output" || name == "query gradient";
    if (name.starts_with("score bias")) continue;  // its shape is another
    if (!like_output && name.ends_with("gradient")) {
      results[name] = tensor;  // of a weight, a sum over all rows
      continue;
    }
    const int axis = like_output && layout == Layout::SequenceFirst ? 0 : 1;
    const auto& starts = of_keys && !lengths.key.empty() ? lengths.key : lengths.query;
    std::vector<std::int64_t> extents(tensor.shape().begin() + 1, tensor.shape().end());
    extents[static_cast<std::size_t>(axis)] = starts.back();
    Tensor joined{Shape(extents)};
    for (std::size_t b = 0; b + 1 < starts.size(); ++b) {
      const std::int64_t rows = starts[b + 1] - starts[b];
      const Tensor own =
          Tensor::copy_of(tensor.view().at(0, static_cast<std::int64_t>(b)).sliced(axis, 0, rows));
      const MutableView place = joined.view().sliced(axis, starts[b], starts[b + 1]);
      std::int64_t next = 0;
      for_each_offset(place,
                      [&](std::int64_t offset) { place.data()[offset] = own.data()[next++]; });
    }
    results[name] = joined;
  }
  return results;
}

}  // namespace headwise::test_support
