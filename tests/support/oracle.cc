#include "support/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "support/oracle_mask.h"

namespace headwise::oracle {

using std::exp;
using std::log;
using std::sqrt;
using std::tanh;

std::int64_t Sequences::longest_key() const {
  std::int64_t longest = least_keys;
  for (std::int64_t b = 0; b < count(); ++b) longest = std::max(longest, keys(b));
  return longest;
}

namespace {

std::vector<std::int64_t> equal_steps(std::int64_t batch, std::int64_t length) {
  std::vector<std::int64_t> starts;
  for (std::int64_t b = 0; b <= batch; ++b) starts.push_back(b * length);
  return starts;
}

Sequences packed_sequences(const PackedLengths& packed, std::int64_t tail) {
  return {packed.query, packed.key.empty() ? packed.query : packed.key, tail};
}

// All scores of one head of one sequence, T×S row-major.
template <typename Scalar>
struct HeadMatrices {
  std::int64_t keys = 0;
  std::vector<bool> attended;
  std::vector<Scalar> capped;       // scale·q·k, after softcap
  std::vector<Scalar> weights;      // P, before dropout
  std::vector<Scalar> dropout;      // 0 or 1/(1−p)
  std::vector<Scalar> log_sum_exp;  // (T)

  [[nodiscard]] std::size_t at(std::int64_t t, std::int64_t s) const {
    return static_cast<std::size_t>(t * keys + s);
  }
};

template <typename Scalar>
Scalar dot(const Scalar* a, const Scalar* b, std::int64_t n) {
  Scalar sum(0);
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <typename Scalar>
class Head {
 public:
  Head(const HeadTensors<Scalar>& inputs, const Sequences& sequences,
       const AttentionOptions& options, std::int64_t sequence, std::int64_t head)
      : inputs_(inputs),
        options_(options),
        rules_(options, sequences),
        sequence_(sequence),
        head_(head),
        kv_head_(head / (inputs.query.shape[1] / inputs.key.shape[1])),
        first_query_(sequences.first_query(sequence)),
        first_key_(sequences.first_key(sequence)),
        queries_(sequences.queries(sequence)),
        keys_(sequences.keys(sequence)),
        dk_(inputs.query.shape[2]),
        dv_(inputs.value.shape[2]),
        scale_(options.scale ? Scalar(*options.scale)
                             : Scalar(1) / sqrt(Scalar(static_cast<float>(dk_)))) {}

  void forward(AttentionValues<Scalar>& values) const;
  void backward(const Array<Scalar>& output_gradient, HeadTensors<Scalar>& gradients) const;

 private:
  [[nodiscard]] Entry entry(std::int64_t t, std::int64_t s) const {
    return {sequence_, head_, t, s};
  }
  [[nodiscard]] const Scalar* query(std::int64_t t) const {
    return inputs_.query.row(first_query_ + t, head_);
  }
  [[nodiscard]] const Scalar* key(std::int64_t s) const {
    return inputs_.key.row(first_key_ + s, kv_head_);
  }
  [[nodiscard]] const Scalar* value(std::int64_t s) const {
    return inputs_.value.row(first_key_ + s, kv_head_);
  }
  [[nodiscard]] Scalar bias(const Entry& entry) const;
  [[nodiscard]] HeadMatrices<Scalar> matrices() const;
  void softmax_row(std::int64_t t, HeadMatrices<Scalar>& m) const;
  void backward_row(std::int64_t t, const HeadMatrices<Scalar>& m, const Scalar* output_gradient,
                    HeadTensors<Scalar>& gradients) const;

  const HeadTensors<Scalar>& inputs_;
  const AttentionOptions& options_;
  Rules rules_;
  std::int64_t sequence_, head_, kv_head_;
  std::int64_t first_query_, first_key_, queries_, keys_, dk_, dv_;
  Scalar scale_;
};

template <typename Scalar>
Scalar Head<Scalar>::bias(const Entry& entry) const {
  Scalar sum(0);
  if (rules_.in_tail(entry)) return sum;
  for (std::size_t i = 0; i < inputs_.bias.size(); ++i) {
    const Array<Scalar>& array = inputs_.bias[i];
    sum += array.values[rules_.offset_in(array.shape, options_.bias[i].axes, entry)];
  }
  return sum;
}

// m.weights holds the biased scores and becomes their softmax over what row t attends.
template <typename Scalar>
void Head<Scalar>::softmax_row(std::int64_t t, HeadMatrices<Scalar>& m) const {
  std::optional<Scalar> maximum;
  for (std::int64_t s = 0; s < keys_; ++s) {
    const Scalar& score = m.weights[m.at(t, s)];
    if (m.attended[m.at(t, s)] && (!maximum || score > *maximum)) maximum = score;
  }
  if (!maximum) {
    m.log_sum_exp[static_cast<std::size_t>(t)] = Scalar(-std::numeric_limits<float>::infinity());
    return;
  }
  Scalar sum(0);
  for (std::int64_t s = 0; s < keys_; ++s) {
    if (!m.attended[m.at(t, s)]) continue;
    Scalar& weight = m.weights[m.at(t, s)];
    weight = exp(weight - reference_score(*maximum));
    sum += weight;
  }
  for (std::int64_t s = 0; s < keys_; ++s) {
    if (m.attended[m.at(t, s)]) m.weights[m.at(t, s)] = share(m.weights[m.at(t, s)], sum);
  }
  m.log_sum_exp[static_cast<std::size_t>(t)] = reference_score(*maximum) + log(sum);
}

template <typename Scalar>
HeadMatrices<Scalar> Head<Scalar>::matrices() const {
  HeadMatrices<Scalar> m;
  m.keys = keys_;
  const auto count = static_cast<std::size_t>(queries_ * keys_);
  m.attended.resize(count);
  m.capped.resize(count);
  m.weights.resize(count);
  m.dropout.assign(count, Scalar(1));
  m.log_sum_exp.resize(static_cast<std::size_t>(queries_));
  const float p = options_.dropout.probability;
  for (std::int64_t t = 0; t < queries_; ++t) {
    for (std::int64_t s = 0; s < keys_; ++s) {
      const std::size_t i = m.at(t, s);
      m.attended[i] = rules_.attends(entry(t, s));
      if (!m.attended[i]) continue;
      const Scalar score = scale_ * dot(query(t), key(s), dk_);
      m.capped[i] = score;
      if (options_.softcap)
        m.capped[i] = Scalar(*options_.softcap) * tanh(score / Scalar(*options_.softcap));
      m.weights[i] = m.capped[i];
      if (!inputs_.bias.empty()) m.weights[i] += bias(entry(t, s));
      if (p > 0.0F)
        m.dropout[i] =
            rules_.dropped(entry(t, s)) ? Scalar(0) : Scalar(1) / (Scalar(1) - Scalar(p));
    }
    softmax_row(t, m);
  }
  return m;
}

template <typename Scalar>
void Head<Scalar>::forward(AttentionValues<Scalar>& values) const {
  const HeadMatrices<Scalar> m = matrices();
  for (std::int64_t t = 0; t < queries_; ++t) {
    const std::int64_t row = first_query_ + t;
    values.log_sum_exp(row, head_) = m.log_sum_exp[static_cast<std::size_t>(t)];
    Scalar* output = values.output.row(row, head_);
    for (std::int64_t s = 0; s < keys_; ++s) {
      const std::size_t i = m.at(t, s);
      const auto distance = std::abs(rules_.query_position(entry(t, s)) - s);
      values.distance(row, head_, s) = Scalar(static_cast<float>(distance));
      if (!m.attended[i]) continue;
      values.attended(row, head_, s) = Scalar(1);
      values.weights(row, head_, s) = m.weights[i];
      const Scalar weight = m.weights[i] * m.dropout[i];
      for (std::int64_t d = 0; d < dv_; ++d) output[d] += weight * value(s)[d];
    }
  }
}

// dP = dropout·(dO·v), dS = P·(dP − Σ P·dP), then through bias, softcap and scale to q and k.
template <typename Scalar>
void Head<Scalar>::backward_row(std::int64_t t, const HeadMatrices<Scalar>& m,
                                const Scalar* output_gradient,
                                HeadTensors<Scalar>& gradients) const {
  std::vector<Scalar> weight_gradient(static_cast<std::size_t>(keys_));
  Scalar mean(0);
  for (std::int64_t s = 0; s < keys_; ++s) {
    const std::size_t i = m.at(t, s);
    if (!m.attended[i]) continue;
    Scalar& dp = weight_gradient[static_cast<std::size_t>(s)];
    dp = m.dropout[i] * dot(output_gradient, value(s), dv_);
    mean += m.weights[i] * dp;
    Scalar* dv = gradients.value.row(first_key_ + s, kv_head_);
    const Scalar weight = m.weights[i] * m.dropout[i];
    for (std::int64_t d = 0; d < dv_; ++d) dv[d] += weight * output_gradient[d];
  }
  Scalar* dq = gradients.query.row(first_query_ + t, head_);
  for (std::int64_t s = 0; s < keys_; ++s) {
    const std::size_t i = m.at(t, s);
    if (!m.attended[i]) continue;
    Scalar ds = m.weights[i] * (weight_gradient[static_cast<std::size_t>(s)] - mean);
    for (std::size_t b = 0; b < gradients.bias.size() && !rules_.in_tail(entry(t, s)); ++b) {
      Array<Scalar>& db = gradients.bias[b];
      db.values[rules_.offset_in(db.shape, options_.bias[b].axes, entry(t, s))] += ds;
    }
    if (options_.softcap) {
      const Scalar ratio = m.capped[i] / Scalar(*options_.softcap);
      ds *= Scalar(1) - ratio * ratio;
    }
    ds *= scale_;
    Scalar* dk = gradients.key.row(first_key_ + s, kv_head_);
    for (std::int64_t d = 0; d < dk_; ++d) {
      dq[d] += ds * key(s)[d];
      dk[d] += ds * query(t)[d];
    }
  }
}

template <typename Scalar>
void Head<Scalar>::backward(const Array<Scalar>& output_gradient,
                            HeadTensors<Scalar>& gradients) const {
  const HeadMatrices<Scalar> m = matrices();
  for (std::int64_t t = 0; t < queries_; ++t) {
    backward_row(t, m, output_gradient.row(first_query_ + t, head_), gradients);
  }
}

}  // namespace

Sequences head_sequences(const ConstView& query, const ConstView& key,
                         const AttentionOptions& options) {
  if (options.packed) return packed_sequences(*options.packed, options.unmasked_tail);
  const int batch_axes = query.rank() - 3;
  const int row_axis = batch_axes + (options.layout == Layout::HeadsFirst ? 1 : 0);
  const std::int64_t batch = batch_axes == 1 ? query.extent(0) : 1;
  return {equal_steps(batch, query.extent(row_axis)), equal_steps(batch, key.extent(row_axis)),
          key.extent(row_axis)};
}

Sequences layer_sequences(const ConstView& query, const ConstView& key,
                          const ForwardOptions& options) {
  if (options.packed) return packed_sequences(*options.packed, 0);
  const std::int64_t batch = query.rank() == 3 ? query.extent(0) : 1;
  const int row_axis = query.rank() - 2;
  return {equal_steps(batch, query.extent(row_axis)), equal_steps(batch, key.extent(row_axis)),
          key.extent(row_axis)};
}

template <typename Scalar>
AttentionValues<Scalar> attention(const HeadTensors<Scalar>& inputs, const Sequences& sequences,
                                  const AttentionOptions& options) {
  const std::int64_t rows = inputs.query.shape[0];
  const std::int64_t heads = inputs.query.shape[1];
  AttentionValues<Scalar> values;
  values.output = Array<Scalar>({rows, heads, inputs.value.shape[2]});
  values.log_sum_exp = Array<Scalar>({rows, heads});
  values.weights = Array<Scalar>({rows, heads, sequences.longest_key()});
  values.distance = values.weights;
  values.attended = values.weights;
  for (std::int64_t b = 0; b < sequences.count(); ++b) {
    for (std::int64_t h = 0; h < heads; ++h)
      Head<Scalar>(inputs, sequences, options, b, h).forward(values);
  }
  return values;
}

template <typename Scalar>
HeadTensors<Scalar> attention_backward(const HeadTensors<Scalar>& inputs,
                                       const Sequences& sequences,
                                       const Array<Scalar>& output_gradient,
                                       const AttentionOptions& options) {
  HeadTensors<Scalar> gradients{Array<Scalar>(inputs.query.shape),
                                Array<Scalar>(inputs.key.shape),
                                Array<Scalar>(inputs.value.shape),
                                {}};
  for (const Array<Scalar>& bias : inputs.bias) gradients.bias.emplace_back(bias.shape);
  for (std::int64_t b = 0; b < sequences.count(); ++b) {
    for (std::int64_t h = 0; h < inputs.query.shape[1]; ++h) {
      Head<Scalar>(inputs, sequences, options, b, h).backward(output_gradient, gradients);
    }
  }
  return gradients;
}

#define HEADWISE_ORACLE_INSTANTIATE(Scalar)                                                     \
  template AttentionValues<Scalar> attention(const HeadTensors<Scalar>&, const Sequences&,      \
                                             const AttentionOptions&);                          \
  template HeadTensors<Scalar> attention_backward(const HeadTensors<Scalar>&, const Sequences&, \
                                                  const Array<Scalar>&, const AttentionOptions&);
HEADWISE_ORACLE_INSTANTIATE(double)
HEADWISE_ORACLE_INSTANTIATE(float)
HEADWISE_ORACLE_INSTANTIATE(Rounded)
HEADWISE_ORACLE_INSTANTIATE(Jittered)
#undef HEADWISE_ORACLE_INSTANTIATE

}  // namespace headwise::oracle
