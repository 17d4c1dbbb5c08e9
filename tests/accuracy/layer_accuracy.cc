#include "accuracy/layer_accuracy.h"

#include "support/accuracy.h"
#include "support/oracle.h"

namespace headwise::accuracy {
namespace {

using test_support::kForwardFactor;
using test_support::kGradientFactor;

template <typename Scalar>
struct OracleRun {
  oracle::Array<Scalar> output;
  oracle::LayerTensors<Scalar> gradients;
};

// Biases and scales are drawn too: initial ones are 0 and 1, which no rounding touches.
AttentionWeights make_weights(const AttentionConfig& config, std::uint64_t draw) {
  std::uint64_t seed = 1000 * (draw + 1);
  AttentionWeights weights = AttentionWeights::glorot(config, seed);
  for (const WeightField& field : weight_fields()) {
    ++seed;
    if (!field.present(config) || (weights.*field.tensor).rank() > 1) continue;
    weights.*field.tensor = Tensor::uniform(field.flat_shape(config), seed, 0.5F, 1.5F);
  }
  return weights;
}

// Adds to the row of that quantity, the first time with a new row.
class Rows {
 public:
  Rows(const std::string& name, std::vector<Row>& rows) : name_(name), rows_(rows) {}
  void add(const std::string& quantity, const oracle::Array<double>& exact,
           const oracle::Array<float>& naive, const Tensor& ours) {
    if (next_ == rows_.size()) {
      rows_.push_back({name_, quantity, next_ == 0 ? kForwardFactor : kGradientFactor});
    }
    rows_[next_++].add(exact.values, naive.values, ours.values());
  }

 private:
  const std::string& name_;
  std::vector<Row>& rows_;
  std::size_t next_ = 0;
};

void measure(const LayerAccuracyCase& c, std::uint64_t draw, std::vector<Row>& all) {
  const std::uint64_t seed = 10 * draw;
  const Tensor query = Tensor::normal(c.input, seed + 1);
  const Tensor key = Tensor::normal(c.input, seed + 2);
  const Tensor value = Tensor::normal(c.input, seed + 3);
  const AttentionInputs inputs{query, key, value};
  const AttentionWeights weights = make_weights(c.config, draw);
  const MultiHeadAttention layer(c.config, weights);
  ForwardOptions options;
  options.save_for_backward = true;
  if (c.causal) options.mask = causal();
  const AttentionResult forward = layer.forward(inputs, options);
  const Tensor output_gradient = Tensor::normal(forward.output.shape(), seed + 4);
  const LayerGradients gradients = layer.backward(inputs, forward, output_gradient, options);

  const auto sequences = oracle::layer_sequences(query, key, options);
  const auto run = [&]<typename Scalar>(Scalar) {
    const auto tensors = oracle::layer_tensors<Scalar>(inputs, options, weights);
    return OracleRun<Scalar>{
        oracle::layer(tensors, sequences, c.config, options).output,
        oracle::layer_backward(tensors, sequences, c.config,
                               oracle::feature_rows<Scalar>(output_gradient), options)};
  };
  const OracleRun<double> exact = run(0.0);
  const OracleRun<float> naive = run(0.0F);

  Rows rows(c.name, all);
  rows.add("layer output", exact.output, naive.output, forward.output);
  rows.add("layer dQuery", exact.gradients.query, naive.gradients.query, gradients.query);
  rows.add("layer dKey", exact.gradients.key, naive.gradients.key, gradients.key);
  rows.add("layer dValue", exact.gradients.value, naive.gradients.value, gradients.value);
  const auto& exact_weights = oracle::weight_names<double>();
  const auto& naive_weights = oracle::weight_names<float>();
  for (std::size_t i = 0; i < exact_weights.size(); ++i) {
    const Tensor& ours = gradients.weights.*exact_weights[i].library;
    if (ours.size() == 0) continue;
    rows.add(std::string("d ") + exact_weights[i].name,
             exact.gradients.weights.*exact_weights[i].oracle,
             naive.gradients.weights.*naive_weights[i].oracle, ours);
  }
}

}  // namespace

std::vector<LayerAccuracyCase> layer_accuracy_cases() {
  return {
      {.name = "layer (2,64,256) 4x64",
       .config = {.num_heads = 4, .key_dim = 64, .query_features = 256},
       .input = {2, 64, 256}},
      {.name = "layer (1,128,192) 3x64",
       .config = {.num_heads = 3, .key_dim = 64, .query_features = 192},
       .input = {1, 128, 192}},
      {.name = "layer (1,96,256) 4/1x64 causal",
       .config = {.num_heads = 4, .num_kv_heads = 1, .key_dim = 64, .query_features = 256},
       .input = {1, 96, 256},
       .causal = true},
      {.name = "layer (4,32,128) 4x32 norm, gate",
       .config = {.num_heads = 4,
                  .key_dim = 32,
                  .query_features = 128,
                  .use_gate = true,
                  .qk_norm = QkNorm::RmsNorm},
       .input = {4, 32, 128}},
      {.name = "layer (1,512,32) 1x32, long sums",
       .config = {.num_heads = 1, .key_dim = 32, .query_features = 32},
       .input = {1, 512, 32},
       .draws = 8},
  };
}

std::vector<Row> measure(const LayerAccuracyCase& c) {
  std::vector<Row> rows;
  for (std::uint64_t draw = 0; draw < c.draws; ++draw) measure(c, draw, rows);
  return rows;
}

}  // namespace headwise::accuracy
