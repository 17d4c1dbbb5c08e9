// Ways to say the same thing give the same bits: layouts, strides, buffers, batches.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <string>

#include "support/alone.h"
#include "support/expect_bits.h"
#include "support/random_case.h"

namespace headwise::test_support {
namespace {

constexpr BackwardOptions kAllGradients = {.bias_gradient = true};

void require(const ::testing::AssertionResult& result, const std::string& what) {
  if (!result) RC_FAIL(what + ": " + result.message());
}

struct Run {
  AttentionResult result;
  AttentionGradients gradients;
};

Run run(const AttentionInputs& inputs, const ConstView& output_gradient,
        const AttentionOptions& options) {
  Run r;
  r.result = attention(inputs.query, inputs.key, inputs.value, options);
  r.gradients = attention_backward(inputs, r.result, output_gradient, options, kAllGradients);
  return r;
}

// All but the tensors whose layout follows the call's.
void require_same_statistics(const AttentionResult& a, const AttentionResult& b) {
  require(same_bits(a.log_sum_exp, b.log_sum_exp), "log_sum_exp");
  require(same_bits(a.row_reference, b.row_reference), "row_reference");
  require(same_bits(a.row_sum, b.row_sum), "row_sum");
  require(same_bits(a.weights, b.weights), "weights");
  require(same_bits(a.top.values, b.top.values), "top.values");
  require(same_bits(a.top.indices, b.top.indices), "top.indices");
  require(same_bits(a.statistics.entropy, b.statistics.entropy), "entropy");
  require(same_bits(a.statistics.mean_distance, b.statistics.mean_distance), "mean_distance");
  require(same_bits(a.statistics.first_key_mass, b.statistics.first_key_mass), "first_key_mass");
}

ConstView heads_and_rows_swapped(const ConstView& view) {
  return view.rank() == 4 ? view.permuted({0, 2, 1, 3}) : view.permuted({1, 0, 2});
}

RC_GTEST_PROP(Equivalence, BothLayoutsOfTheSameMemory, (Recipe recipe)) {
  recipe.own_out = false;
  const OpCase c = make_op_case(recipe);
  const Run one = run(c.inputs, c.output_gradient, c.options);

  AttentionOptions options = c.options;
  options.layout =
      options.layout == Layout::HeadsFirst ? Layout::SequenceFirst : Layout::HeadsFirst;
  const AttentionInputs swapped = {heads_and_rows_swapped(c.inputs.query),
                                   heads_and_rows_swapped(c.inputs.key),
                                   heads_and_rows_swapped(c.inputs.value)};
  const Run other = run(swapped, heads_and_rows_swapped(c.output_gradient), options);

  const auto back = [](const Tensor& tensor) {
    return Tensor::copy_of(heads_and_rows_swapped(tensor));
  };
  require(same_bits(one.result.output, back(other.result.output)), "output");
  require(same_bits(one.gradients.query, back(other.gradients.query)), "query gradient");
  require(same_bits(one.gradients.key, back(other.gradients.key)), "key gradient");
  require(same_bits(one.gradients.value, back(other.gradients.value)), "value gradient");
  require(same_bits(one.gradients.bias, other.gradients.bias), "bias gradient");
  require_same_statistics(one.result, other.result);
}

RC_GTEST_PROP(Equivalence, OddStridesAndRowMajorCopies, (Recipe recipe)) {
  recipe.own_out = false;
  recipe.odd_strides = true;
  const OpCase c = make_op_case(recipe);
  const Run odd = run(c.inputs, c.output_gradient, c.options);

  const Tensor query = Tensor::copy_of(c.inputs.query);
  const Tensor key = Tensor::copy_of(c.inputs.key);
  const Tensor value = Tensor::copy_of(c.inputs.value);
  AttentionOptions options = c.options;
  for (Bias& bias : options.bias) bias.values = Tensor::copy_of(bias.values.view());
  for (KeepMask& keep : options.mask.keeps) keep.values = BoolTensor::copy_of(keep.values.view());
  const Run plain = run({query, key, value}, Tensor::copy_of(c.output_gradient), options);
  require(same_bits(odd.result.output, plain.result.output), "output");
  require(same_bits(odd.gradients, plain.gradients), "gradients");
  require_same_statistics(odd.result, plain.result);
}

// A buffer of odd strides, full of a sentinel: what the library wrote, and whether it wrote elsewhere.
class GuardedBuffer {
 public:
  GuardedBuffer(const Shape& shape, Dice& dice)
      : buffer_(make_strided<float>(shape, StrideStyle::Odd, dice, memory_)) {
    std::fill_n(buffer_.storage.get(), buffer_.storage_size, kSentinel);
  }
  [[nodiscard]] MutableView view() const { return buffer_.view; }
  [[nodiscard]] bool gaps_untouched() const {
    std::vector<bool> inside(static_cast<std::size_t>(buffer_.storage_size));
    const std::int64_t origin = buffer_.view.data() - buffer_.storage.get();
    for_each_offset(buffer_.view, [&](std::int64_t offset) {
      inside[static_cast<std::size_t>(origin + offset)] = true;
    });
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (!inside[i] && buffer_.storage[static_cast<std::ptrdiff_t>(i)] != kSentinel) return false;
    }
    return true;
  }

 private:
  static constexpr float kSentinel = 12345.0F;
  Memory memory_;
  Strided<float> buffer_;
};

RC_GTEST_PROP(Equivalence, AttentionIntoTheCallersBuffer, (Recipe recipe)) {
  recipe.own_out = false;
  const OpCase c = make_op_case(recipe);
  const Run owned = run(c.inputs, c.output_gradient, c.options);

  Dice dice(recipe.seed);
  const GuardedBuffer buffer(owned.result.output.shape(), dice);
  AttentionOptions options = c.options;
  options.out = buffer.view();
  const Run given = run(c.inputs, c.output_gradient, options);
  RC_ASSERT(given.result.output.size() == 0);
  RC_ASSERT(buffer.gaps_untouched());
  require(same_bits(owned.result.output, Tensor::copy_of(buffer.view())), "output");
  require(same_bits(owned.gradients, given.gradients), "gradients");
  require_same_statistics(owned.result, given.result);
}

RC_GTEST_PROP(Equivalence, LayerIntoTheCallersBuffer, (Recipe recipe)) {
  recipe.own_out = false;
  const LayerCase c = make_layer_case(recipe);
  const MultiHeadAttention layer(c.config, c.weights);
  ForwardOptions options = c.options;
  options.save_for_backward = true;
  const AttentionResult owned = layer.forward(c.inputs, options);
  const LayerGradients gradients =
      layer.backward(c.inputs, owned, c.output_gradient, options, kAllGradients);

  Dice dice(recipe.seed);
  const GuardedBuffer buffer(owned.output.shape(), dice);
  options.out = buffer.view();
  const AttentionResult given = layer.forward(c.inputs, options);
  RC_ASSERT(given.output.size() == 0);
  RC_ASSERT(buffer.gaps_untouched());
  require(same_bits(owned.output, Tensor::copy_of(buffer.view())), "output");
  require(same_bits(gradients,
                    layer.backward(c.inputs, given, c.output_gradient, options, kAllGradients)),
          "gradients");
  require_same_statistics(owned, given);
}

Tensor without_batch(const Tensor& tensor) { return Tensor::copy_of(tensor.view().at(0, 0)); }

RC_GTEST_PROP(Equivalence, OneSequenceWithAndWithoutABatchAxis, (Recipe recipe)) {
  recipe.batch_kind = BatchKind::Single;
  recipe.own_out = false;
  const OpCase c = make_op_case(recipe);
  const Run single = run(c.inputs, c.output_gradient, c.options);
  const AttentionInputs batched = {c.inputs.query.broadcast(0, 1), c.inputs.key.broadcast(0, 1),
                                   c.inputs.value.broadcast(0, 1)};
  const Run batch = run(batched, c.output_gradient.broadcast(0, 1), c.options);
  require(same_bits(single.result.output, without_batch(batch.result.output)), "output");
  require(same_bits(single.result.log_sum_exp, without_batch(batch.result.log_sum_exp)),
          "log_sum_exp");
  if (c.options.weights.matrix != WeightsRequest::Matrix::None) {
    require(same_bits(single.result.weights, without_batch(batch.result.weights)), "weights");
  }
  require(same_bits(single.gradients.query, without_batch(batch.gradients.query)),
          "query gradient");
  require(same_bits(single.gradients.key, without_batch(batch.gradients.key)), "key gradient");
  require(same_bits(single.gradients.value, without_batch(batch.gradients.value)),
          "value gradient");
  require(same_bits(single.gradients.bias, batch.gradients.bias), "bias gradient");
}

// Weights (…, S of the longest) of a sequence with fewer keys: nothing but zeros behind them.
::testing::AssertionResult same_weights(const Tensor& all, const Tensor& own) {
  const int last = all.rank() - 1;
  const std::int64_t keys = own.extent(last);
  const Tensor rest = Tensor::copy_of(all.view().sliced(last, keys, all.extent(last)));
  if (!all_equal(rest, 0.0F)) return ::testing::AssertionFailure() << "not 0 behind the last key";
  return same_bits(Tensor::copy_of(all.view().sliced(last, 0, keys)), own);
}

RC_GTEST_PROP(Equivalence, AttentionOfABatchAndOfEachSequenceAlone, (Recipe recipe)) {
  recipe.own_out = false;
  if (recipe.batch_kind == BatchKind::Single) recipe.batch_kind = BatchKind::Packed;
  OpCase c = make_op_case(recipe);
  c.options.weights = all_weights();
  const Run batch = run(c.inputs, c.output_gradient, c.options);
  const int rows = c.options.layout == Layout::HeadsFirst ? 1 : 0;
  for (std::int64_t b = 0; b < sequence_count(c); ++b) {
    const OpAlone one = alone(c, b);
    const Run own = run(one.inputs, one.output_gradient, one.options);
    const auto part = [&](const Tensor& tensor, int axis, bool of_keys) {
      return part_of(tensor, c.options.packed, b, axis, of_keys);
    };
    const std::string which = "sequence " + std::to_string(b) + ", ";
    require(same_bits(part(batch.result.output, rows, false), own.result.output), which + "output");
    require(same_bits(part(batch.result.log_sum_exp, 1, false), own.result.log_sum_exp),
            which + "log_sum_exp");
    require(same_weights(part(batch.result.weights, 1, false), own.result.weights),
            which + "weights");
    require(same_bits(part(batch.gradients.query, rows, false), own.gradients.query),
            which + "query gradient");
    require(same_bits(part(batch.gradients.key, rows, true), own.gradients.key),
            which + "key gradient");
    require(same_bits(part(batch.gradients.value, rows, true), own.gradients.value),
            which + "value gradient");
  }
}

// Gradients of the weights sum over the batch; those of the inputs do not.
RC_GTEST_PROP(Equivalence, LayerOfABatchAndOfEachSequenceAlone, (Recipe recipe)) {
  recipe.own_out = false;
  if (recipe.batch_kind == BatchKind::Single) recipe.batch_kind = BatchKind::Packed;
  LayerCase c = make_layer_case(recipe);
  c.options.weights = no_weights();
  c.options.save_for_backward = true;
  const MultiHeadAttention layer(c.config, c.weights);
  const AttentionResult batch = layer.forward(c.inputs, c.options);
  const LayerGradients gradients = layer.backward(c.inputs, batch, c.output_gradient, c.options);
  for (std::int64_t b = 0; b < sequence_count(c); ++b) {
    const LayerAlone one = alone(c, b);
    const AttentionResult own = layer.forward(one.inputs, one.options);
    const LayerGradients own_gradients =
        layer.backward(one.inputs, own, one.output_gradient, one.options);
    const auto part = [&](const Tensor& tensor, int axis, bool of_keys) {
      return part_of(tensor, c.options.packed, b, axis, of_keys);
    };
    const std::string which = "sequence " + std::to_string(b) + ", ";
    require(same_bits(part(batch.output, 0, false), own.output), which + "output");
    require(same_bits(part(batch.log_sum_exp, 1, false), own.log_sum_exp), which + "log_sum_exp");
    require(same_bits(part(gradients.query, 0, false), own_gradients.query),
            which + "query gradient");
    require(same_bits(part(gradients.key, 0, true), own_gradients.key), which + "key gradient");
    require(same_bits(part(gradients.value, 0, true), own_gradients.value),
            which + "value gradient");
  }
}

}  // namespace
}  // namespace headwise::test_support
