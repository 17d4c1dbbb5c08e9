// headwise_attention and headwise_attention_backward.
//
// query (B,T,N,dk), key (B,S,K,dk), value (B,S,K,dv); then those that attributes announce, in this
// order: bias (B|1,N|1,T|1,S|1), mask (the same, bool), query_lengths (B), key_lengths (B),
// dropout_seed (2). Attributes scale, softcap, left, right and dropout are there if given.
#include "headwise/attention.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "handlers.h"

namespace headwise::jax {

namespace {

// Of one lane.
struct Sizes {
  std::int64_t batch, queries, keys;
};

// Operands that a call may have or not, and the options that are attributes.
class Choices {
 public:
  Choices(const ffi::RemainingArgs& operands, const ffi::Dictionary& attributes, const Lanes& lanes,
          const Sizes& sizes)
      : attributes_(attributes), lanes_(&lanes), sizes_(sizes) {
    take<ffi::F32>(operands, "has_bias", 4, bias_);
    take<ffi::PRED>(operands, "has_mask", 4, mask_);
    take<ffi::S32>(operands, "has_query_lengths", 1, query_lengths_);
    take<ffi::S32>(operands, "has_key_lengths", 1, key_lengths_);
    take<ffi::U32>(operands, "has_dropout", 1, seed_);
  }

  // Whether all lanes can be one batch.
  [[nodiscard]] bool join() const {
    const std::int64_t batch = sizes_.batch;
    return (!bias_ || bias_->joins(batch)) && (!mask_ || mask_->joins(batch)) &&
           (!query_lengths_ || query_lengths_->joins(batch)) &&
           (!key_lengths_ || key_lengths_->joins(batch)) && (!seed_ || seed_->shared());
  }
  // Whether each lane and sequence has a bias of its own, so that its gradient sums over neither.
  [[nodiscard]] bool biases_apart() const {
    return bias_ && bias_->full() && bias_->joins(sizes_.batch);
  }

  [[nodiscard]] AttentionOptions options(const Share& share) const {
    AttentionOptions options;
    options.scale = attribute<float>(attributes_, "scale");
    options.softcap = attribute<float>(attributes_, "softcap");
    options.mask.left = attribute<std::int64_t>(attributes_, "left");
    options.mask.right = attribute<std::int64_t>(attributes_, "right");
    options.mask.positions = Alignment::TopLeft;  // as JAX has it
    if (mask_) options.mask.keeps.push_back({mask_->view(share), Axes::BatchHeadQueryKey});
    if (query_lengths_) {
      options.mask.query_lengths.emplace_back(clamped(*query_lengths_, share, sizes_.queries));
    }
    if (key_lengths_) {
      options.mask.key_lengths.emplace_back(clamped(*key_lengths_, share, sizes_.keys));
    }
    if (bias_) options.bias.emplace_back(bias_->view(share), Axes::BatchHeadQueryKey);
    if (seed_) options.dropout = dropout(share);
    return options;
  }

 private:
  template <ffi::DataType type, typename T>
  void take(const ffi::RemainingArgs& operands, const char* name, int rank,
            std::optional<Operand<const T>>& into) {
    if (!attribute<bool>(attributes_, name).value_or(false)) return;
    const auto buffer = value_of(operands.get<ffi::Buffer<type>>(taken_++));
    into.emplace(buffer.typed_data(), buffer.dimensions(), rank, *lanes_);
  }

  // A length beyond the end means all, a negative one nothing: what a comparison with indices does.
  [[nodiscard]] IndexTensor clamped(const Operand<const std::int32_t>& lengths, const Share& share,
                                    std::int64_t most) const {
    IndexTensor clamped(Shape{batch(share)});
    const std::int32_t* given = lengths.data(share);
    const bool one_for_all = share.all && !lengths.full();
    for (std::int64_t b = 0; b < clamped.size(); ++b) {
      clamped.data()[b] = std::clamp<std::int64_t>(given[one_for_all ? 0 : b], 0, most);
    }
    return clamped;
  }

  [[nodiscard]] std::int64_t batch(const Share& share) const {
    return share.all ? sizes_.batch * lanes_->count() : sizes_.batch;
  }

  [[nodiscard]] Dropout dropout(const Share& share) const {
    Dropout dropout;
    dropout.probability = attribute<float>(attributes_, "dropout").value_or(0.0F);
    const std::uint32_t* words = seed_->data(share);
    dropout.seed = (static_cast<std::uint64_t>(words[0]) << 32U) | words[1];
    const bool same = attribute<bool>(attributes_, "same_dropout_in_batch").value_or(false);
    for (std::int64_t i = 0; i < batch(share); ++i) {
      dropout.sequence_ids.push_back(same ? 0 : i % sizes_.batch);
    }
    return dropout;
  }

  ffi::Dictionary attributes_;
  const Lanes* lanes_;
  Sizes sizes_;
  std::size_t taken_ = 0;
  std::optional<Operand<const float>> bias_;
  std::optional<Operand<const bool>> mask_;
  std::optional<Operand<const std::int32_t>> query_lengths_, key_lengths_;
  std::optional<Operand<const std::uint32_t>> seed_;
};

Sizes sizes_of(const Floats& query, const Floats& key) {
  const Dimensions q = query.dimensions();
  const Dimensions k = key.dimensions();
  return {q[q.size() - 4], q[q.size() - 3], k[k.size() - 3]};
}

// The three inputs, of any call.
struct Inputs {
  Inputs(const Floats& query_, const Floats& key_, const Floats& value_, const Lanes& lanes)
      : query(operand(query_, 4, lanes)),
        key(operand(key_, 4, lanes)),
        value(operand(value_, 4, lanes)) {}

  [[nodiscard]] bool join(std::int64_t batch) const {
    return query.joins(batch) && key.joins(batch) && value.joins(batch);
  }
  [[nodiscard]] AttentionInputs views(const Share& share) const {
    return {query.batched_view(share), key.batched_view(share), value.batched_view(share)};
  }

  Operand<const float> query, key, value;
};

// Results: output (B,T,N,dv); log_sum_exp, row_reference and row_sum (B,N,T); and the weights
// (B,N,T,S), if there is a fifth.
ffi::Error forward(Floats query, Floats key, Floats value, ffi::RemainingArgs operands,
                   FloatsResult output, FloatsResult log_sum_exp, FloatsResult row_reference,
                   FloatsResult row_sum, ffi::RemainingRets weights, ffi::Dictionary attributes) {
  return carry_out([&](Context* context) {
    const Lanes lanes(output->dimensions(), 4);
    const Sizes sizes = sizes_of(query, key);
    const Inputs inputs(query, key, value, lanes);
    const Choices choices(operands, attributes, lanes, sizes);
    const auto out = operand(output, 4, lanes);
    for_each_share(lanes, inputs.join(sizes.batch) && choices.join(), [&](const Share& share) {
      AttentionOptions options = choices.options(share);
      options.out = out.view(share);
      options.context = context;
      if (weights.size() > 0) options.weights = all_weights();
      const AttentionInputs views = inputs.views(share);
      const AttentionResult result = attention(views.query, views.key, views.value, options);
      copy_to(operand(log_sum_exp, 3, lanes), share, result.log_sum_exp);
      copy_to(operand(row_reference, 3, lanes), share, result.row_reference);
      copy_to(operand(row_sum, 3, lanes), share, result.row_sum);
      if (weights.size() > 0) {
        FloatsResult into = value_of(weights.get<Floats>(0));
        copy_to(operand(into, 4, lanes), share, result.weights);
      }
    });
  });
}

// What backward needs of forward: output, row_reference and row_sum.
struct Forward {
  Forward(const Floats& output_, const Floats& row_reference_, const Floats& row_sum_,
          const Lanes& lanes)
      : output(operand(output_, 4, lanes)),
        row_reference(operand(row_reference_, 3, lanes)),
        row_sum(operand(row_sum_, 3, lanes)) {}

  [[nodiscard]] bool join() const {
    return output.full() && row_reference.full() && row_sum.full();
  }
  [[nodiscard]] AttentionResult result(const Share& share) const {
    AttentionResult result;
    result.row_reference = Tensor::copy_of(row_reference.view(share));
    result.row_sum = Tensor::copy_of(row_sum.view(share));
    return result;
  }
  // The library takes it as a buffer of the caller's, which a backward only reads.
  [[nodiscard]] MutableView output_view(const Share& share) const {
    const ConstView view = output.view(share);
    return {const_cast<float*>(view.data()), view.shape()};
  }

  Operand<const float> output, row_reference, row_sum;
};

// Results: gradients of query, key and value; and of the bias, if there is a fourth.
ffi::Error backward(Floats query, Floats key, Floats value, Floats output, Floats row_reference,
                    Floats row_sum, Floats output_gradient, ffi::RemainingArgs operands,
                    FloatsResult query_gradient, FloatsResult key_gradient,
                    FloatsResult value_gradient, ffi::RemainingRets bias_gradient,
                    ffi::Dictionary attributes) {
  return carry_out([&](Context* context) {
    const Lanes lanes(query_gradient->dimensions(), 4);
    const Sizes sizes = sizes_of(query, key);
    const Inputs inputs(query, key, value, lanes);
    const Choices choices(operands, attributes, lanes, sizes);
    const Forward saved(output, row_reference, row_sum, lanes);
    const auto gradient = operand(output_gradient, 4, lanes);
    const bool of_bias = bias_gradient.size() > 0;
    const bool joined = inputs.join(sizes.batch) && choices.join() && saved.join() &&
                        gradient.full() && (!of_bias || choices.biases_apart());
    for_each_share(lanes, joined, [&](const Share& share) {
      AttentionOptions options = choices.options(share);
      options.out = saved.output_view(share);
      options.context = context;
      const AttentionGradients gradients =
          attention_backward(inputs.views(share), saved.result(share), gradient.view(share),
                             options, {.bias_gradient = of_bias});
      copy_to(operand(query_gradient, 4, lanes), share, gradients.query);
      copy_to(operand(key_gradient, 4, lanes), share, gradients.key);
      copy_to(operand(value_gradient, 4, lanes), share, gradients.value);
      if (of_bias) {
        FloatsResult into = value_of(bias_gradient.get<Floats>(0));
        copy_to(operand(into, 4, lanes), share, gradients.bias[0]);
      }
    });
  });
}

}  // namespace

XLA_FFI_Error* attention_handler(XLA_FFI_CallFrame* frame) {
  static const auto handler = ffi::Ffi::Bind()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .RemainingArgs()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .RemainingRets()
                                  .Attrs()
                                  .To(forward);
  return handler->Call(frame);
}

XLA_FFI_Error* attention_backward_handler(XLA_FFI_CallFrame* frame) {
  static const auto handler = ffi::Ffi::Bind()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .RemainingArgs()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .RemainingRets()
                                  .Attrs()
                                  .To(backward);
  return handler->Call(frame);
}

}  // namespace headwise::jax
