// The oracle's whole layer: projections, normalisation, extra keys, gate, output projection.
#include <cmath>

#include "support/oracle.h"

namespace headwise::oracle {

using std::exp;
using std::sqrt;

namespace {

// (rows, in) · (in, out) + (out)
template <typename Scalar>
Array<Scalar> linear(const Array<Scalar>& x, const Array<Scalar>& kernel,
                     const Array<Scalar>& bias) {
  const std::int64_t rows = x.shape[0];
  const std::int64_t inputs = kernel.shape[0];
  const std::int64_t outputs = kernel.shape[1];
  Array<Scalar> y({rows, outputs});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      Scalar sum(0);
      for (std::int64_t i = 0; i < inputs; ++i) sum += x(r, i) * kernel(i, o);
      if (!bias.values.empty()) sum += bias(o);
      y(r, o) = sum;
    }
  }
  return y;
}

// Adds to the gradients of x, kernel and bias what dy (rows, out) says.
template <typename Scalar>
void linear_backward(const Array<Scalar>& x, const Array<Scalar>& kernel, const Array<Scalar>& dy,
                     Array<Scalar>& dx, Array<Scalar>& dkernel, Array<Scalar>& dbias) {
  for (std::int64_t r = 0; r < dy.shape[0]; ++r) {
    for (std::int64_t o = 0; o < dy.shape[1]; ++o) {
      for (std::int64_t i = 0; i < x.shape[1]; ++i) {
        dx(r, i) += dy(r, o) * kernel(i, o);
        dkernel(i, o) += x(r, i) * dy(r, o);
      }
      if (!dbias.values.empty()) dbias(o) += dy(r, o);
    }
  }
}

template <typename Scalar>
Array<Scalar> reshaped(Array<Scalar> array, std::vector<std::int64_t> shape) {
  array.shape = std::move(shape);
  return array;
}

// One head's numbers, centred for LayerNorm, and 1/√(mean of their squares + ε).
template <typename Scalar>
struct Normalised {
  std::vector<Scalar> centred;
  Scalar inverse{0};
};

template <typename Scalar>
Normalised<Scalar> normalise(const Scalar* x, std::int64_t size, const AttentionConfig& config) {
  const Scalar count(static_cast<float>(size));
  Normalised<Scalar> result{{x, x + size}, Scalar(0)};
  if (config.qk_norm == QkNorm::LayerNorm) {
    Scalar sum(0);
    for (const Scalar& number : result.centred) sum += number;
    for (Scalar& number : result.centred) number = number - sum / count;
  }
  Scalar squares(0);
  for (const Scalar& number : result.centred) squares += number * number;
  result.inverse = Scalar(1) / sqrt(squares / count + Scalar(config.qk_norm_epsilon));
  return result;
}

// (rows, heads, dk), every head by itself.
template <typename Scalar>
Array<Scalar> norm(const Array<Scalar>& x, const Array<Scalar>& scale,
                   const AttentionConfig& config) {
  if (config.qk_norm == QkNorm::None) return x;
  Array<Scalar> y(x.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t h = 0; h < x.shape[1]; ++h) {
      const Normalised<Scalar> n = normalise(x.row(r, h), x.shape[2], config);
      for (std::int64_t d = 0; d < x.shape[2]; ++d) {
        y(r, h, d) = scale(d) * (n.centred[static_cast<std::size_t>(d)] * n.inverse);
      }
    }
  }
  return y;
}

// With c centred and u = c·inverse: dc = inverse·(g − u·mean(g·u)) for g = scale·dy; LayerNorm then
// takes the mean of dc away.
template <typename Scalar>
void norm_row_backward(const Scalar* x, const Scalar* dy, const Array<Scalar>& scale,
                       const AttentionConfig& config, Scalar* dx, Array<Scalar>& dscale) {
  const std::int64_t size = scale.shape[0];
  const Scalar count(static_cast<float>(size));
  const Normalised<Scalar> n = normalise(x, size, config);
  std::vector<Scalar> unit;
  std::vector<Scalar> g;
  Scalar along(0);
  for (std::int64_t d = 0; d < size; ++d) {
    unit.push_back(n.centred[static_cast<std::size_t>(d)] * n.inverse);
    g.push_back(scale(d) * dy[d]);
    along += g.back() * unit.back();
    dscale(d) += dy[d] * unit.back();
  }
  Scalar sum(0);
  for (std::int64_t d = 0; d < size; ++d) {
    const auto i = static_cast<std::size_t>(d);
    dx[d] = n.inverse * (g[i] - unit[i] * (along / count));
    sum += dx[d];
  }
  if (config.qk_norm != QkNorm::LayerNorm) return;
  for (std::int64_t d = 0; d < size; ++d) dx[d] = dx[d] - sum / count;
}

template <typename Scalar>
Array<Scalar> norm_backward(const Array<Scalar>& x, const Array<Scalar>& scale,
                            const Array<Scalar>& dy, const AttentionConfig& config,
                            Array<Scalar>& dscale) {
  if (config.qk_norm == QkNorm::None) return dy;
  Array<Scalar> dx(x.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t h = 0; h < x.shape[1]; ++h) {
      norm_row_backward(x.row(r, h), dy.row(r, h), scale, config, dx.row(r, h), dscale);
    }
  }
  return dx;
}

// The caller's keys or values (rows, Hkv, d) with the extra rows at the end of every sequence: the
// learned one first, then zeros.
template <typename Scalar>
Array<Scalar> with_extra(const Array<Scalar>& x, const Array<Scalar>& learned,
                         const Sequences& sequences, std::int64_t extra) {
  const std::int64_t size = x.shape[1] * x.shape[2];
  Array<Scalar> y({x.shape[0] + sequences.count() * extra, x.shape[1], x.shape[2]});
  for (std::int64_t b = 0; b < sequences.count(); ++b) {
    const std::int64_t start = sequences.first_key(b) + b * extra;
    for (std::int64_t s = 0; s < sequences.keys(b); ++s) {
      const Scalar* from = x.row(sequences.first_key(b) + s, 0);
      std::copy(from, from + size, y.row(start + s, 0));
    }
    if (!learned.values.empty()) {
      std::copy(learned.values.begin(), learned.values.end(), y.row(start + sequences.keys(b), 0));
    }
  }
  return y;
}

template <typename Scalar>
Array<Scalar> with_extra_backward(const Array<Scalar>& dy, const Sequences& sequences,
                                  std::int64_t extra, Array<Scalar>& dlearned) {
  const std::int64_t size = dy.shape[1] * dy.shape[2];
  Array<Scalar> dx({dy.shape[0] - sequences.count() * extra, dy.shape[1], dy.shape[2]});
  for (std::int64_t b = 0; b < sequences.count(); ++b) {
    const std::int64_t start = sequences.first_key(b) + b * extra;
    for (std::int64_t s = 0; s < sequences.keys(b); ++s) {
      const Scalar* from = dy.row(start + s, 0);
      std::copy(from, from + size, dx.row(sequences.first_key(b) + s, 0));
    }
    for (std::size_t i = 0; i < dlearned.values.size(); ++i) {
      dlearned.values[i] += dy.row(start + sequences.keys(b), 0)[i];
    }
  }
  return dx;
}

Sequences with_extra(Sequences sequences, std::int64_t extra) {
  for (std::size_t b = 0; b < sequences.key.size(); ++b) {
    sequences.key[b] += static_cast<std::int64_t>(b) * extra;
  }
  sequences.least_keys += extra;
  return sequences;
}

AttentionOptions attention_options(const AttentionConfig& config, const ForwardOptions& options) {
  AttentionOptions result;
  result.mask = options.mask;
  result.bias = options.bias;
  result.scale = config.scale;
  result.softcap = config.softcap;
  if (options.training) {
    result.dropout = {config.dropout, options.dropout_seed.value_or(config.seed),
                      options.sequence_ids};
  }
  result.packed = options.packed;
  result.unmasked_tail = config.extra_keys();
  return result;
}

// What the forward pass computes on its way, kept for the backward pass.
template <typename Scalar>
struct Steps {
  Array<Scalar> projected_query;  // (query rows, Hq, dk), before normalisation
  Array<Scalar> projected_key;    // (caller's key rows, Hkv, dk)
  HeadTensors<Scalar> heads;      // what attention sees
  Sequences sequences;            // with the extra keys
  AttentionOptions options;
  AttentionValues<Scalar> attention;
  Array<Scalar> gate;   // (query rows, Hq·dv), after the sigmoid; empty without
  Array<Scalar> gated;  // (query rows, Hq·dv): what the output projection reads
};

template <typename Scalar>
Steps<Scalar> run(const LayerTensors<Scalar>& in, const Sequences& sequences,
                  const AttentionConfig& config, const ForwardOptions& options) {
  const LayerWeights<Scalar>& w = in.weights;
  const std::int64_t rows = in.query.shape[0];
  const std::int64_t key_rows = in.key.shape[0];
  const std::int64_t kv_heads = config.kv_heads();
  const std::int64_t extra = config.extra_keys();
  Steps<Scalar> s;
  s.options = attention_options(config, options);
  s.sequences = with_extra(sequences, extra);
  s.projected_query = reshaped(linear(in.query, w.query_kernel, w.query_bias),
                               {rows, config.num_heads, config.key_dim});
  s.projected_key =
      reshaped(linear(in.key, w.key_kernel, w.key_bias), {key_rows, kv_heads, config.key_dim});
  const Array<Scalar> value = reshaped(linear(in.value, w.value_kernel, w.value_bias),
                                       {key_rows, kv_heads, config.value_size()});
  s.heads.query = norm(s.projected_query, w.query_norm, config);
  s.heads.key =
      with_extra(norm(s.projected_key, w.key_norm, config), w.extra_key, sequences, extra);
  s.heads.value = with_extra(value, w.extra_value, sequences, extra);
  s.heads.bias = in.bias;
  s.attention = attention(s.heads, s.sequences, s.options);
  s.gated = reshaped(s.attention.output, {rows, config.num_heads * config.value_size()});
  if (config.use_gate) {
    s.gate = linear(in.query, w.gate_kernel, w.gate_bias);
    for (Scalar& number : s.gate.values) number = Scalar(1) / (Scalar(1) + exp(-number));
    for (std::size_t i = 0; i < s.gate.values.size(); ++i) s.gated.values[i] *= s.gate.values[i];
  }
  return s;
}

template <typename Scalar>
LayerTensors<Scalar> zeros_like(const LayerTensors<Scalar>& inputs) {
  LayerTensors<Scalar> zeros;
  zeros.query = Array<Scalar>(inputs.query.shape);
  zeros.key = Array<Scalar>(inputs.key.shape);
  zeros.value = Array<Scalar>(inputs.value.shape);
  for (const auto& name : weight_names<Scalar>()) {
    zeros.weights.*name.oracle = Array<Scalar>((inputs.weights.*name.oracle).shape);
  }
  return zeros;
}

// From the gradient of (heads ⊙ gate) to that of the heads; the gate's own goes to the query's.
template <typename Scalar>
Array<Scalar> gate_backward(const LayerTensors<Scalar>& in, const Steps<Scalar>& s,
                            Array<Scalar> dgated, LayerTensors<Scalar>& gradients) {
  Array<Scalar> dlogit(dgated.shape);
  for (std::size_t i = 0; i < dgated.values.size(); ++i) {
    const Scalar gate = s.gate.values[i];
    dlogit.values[i] = dgated.values[i] * s.attention.output.values[i] * gate * (Scalar(1) - gate);
    dgated.values[i] *= gate;
  }
  linear_backward(in.query, in.weights.gate_kernel, dlogit, gradients.query,
                  gradients.weights.gate_kernel, gradients.weights.gate_bias);
  return dgated;
}

template <typename Scalar>
Array<Scalar> flat(Array<Scalar> heads) {
  const std::vector<std::int64_t> shape = heads.shape;
  return reshaped(std::move(heads), {shape[0], shape[1] * shape[2]});
}

}  // namespace

template <typename Scalar>
LayerValues<Scalar> layer(const LayerTensors<Scalar>& inputs, const Sequences& sequences,
                          const AttentionConfig& config, const ForwardOptions& options) {
  Steps<Scalar> steps = run(inputs, sequences, config, options);
  Array<Scalar> output =
      linear(steps.gated, inputs.weights.output_kernel, inputs.weights.output_bias);
  return {std::move(output), std::move(steps.attention)};
}

template <typename Scalar>
LayerTensors<Scalar> layer_backward(const LayerTensors<Scalar>& in, const Sequences& sequences,
                                    const AttentionConfig& config,
                                    const Array<Scalar>& output_gradient,
                                    const ForwardOptions& options) {
  const Steps<Scalar> s = run(in, sequences, config, options);
  const LayerWeights<Scalar>& w = in.weights;
  const std::int64_t extra = config.extra_keys();
  LayerTensors<Scalar> grad = zeros_like(in);
  LayerWeights<Scalar>& dw = grad.weights;

  Array<Scalar> dheads(s.gated.shape);
  linear_backward(s.gated, w.output_kernel, output_gradient, dheads, dw.output_kernel,
                  dw.output_bias);
  if (config.use_gate) dheads = gate_backward(in, s, std::move(dheads), grad);
  HeadTensors<Scalar> d = attention_backward(
      s.heads, s.sequences, reshaped(std::move(dheads), s.attention.output.shape), s.options);
  grad.bias = std::move(d.bias);

  const Array<Scalar> dq =
      norm_backward(s.projected_query, w.query_norm, d.query, config, dw.query_norm);
  const Array<Scalar> dkey = with_extra_backward(d.key, sequences, extra, dw.extra_key);
  const Array<Scalar> dk = norm_backward(s.projected_key, w.key_norm, dkey, config, dw.key_norm);
  const Array<Scalar> dv = with_extra_backward(d.value, sequences, extra, dw.extra_value);
  linear_backward(in.query, w.query_kernel, flat(dq), grad.query, dw.query_kernel, dw.query_bias);
  linear_backward(in.key, w.key_kernel, flat(dk), grad.key, dw.key_kernel, dw.key_bias);
  linear_backward(in.value, w.value_kernel, flat(dv), grad.value, dw.value_kernel, dw.value_bias);
  return grad;
}

#define HEADWISE_ORACLE_INSTANTIATE(Scalar)                                                   \
  template LayerValues<Scalar> layer(const LayerTensors<Scalar>&, const Sequences&,           \
                                     const AttentionConfig&, const ForwardOptions&);          \
  template LayerTensors<Scalar> layer_backward(const LayerTensors<Scalar>&, const Sequences&, \
                                               const AttentionConfig&, const Array<Scalar>&,  \
                                               const ForwardOptions&);
HEADWISE_ORACLE_INSTANTIATE(double)
HEADWISE_ORACLE_INSTANTIATE(float)
HEADWISE_ORACLE_INSTANTIATE(Rounded)
HEADWISE_ORACLE_INSTANTIATE(Jittered)
#undef HEADWISE_ORACLE_INSTANTIATE

}  // namespace headwise::oracle
