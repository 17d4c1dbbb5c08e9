#include "contract/runs.h"

#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>
#include <utility>

namespace headwise::test_support {
namespace {

void add_forward(const AttentionResult& result, const MutableView& out, Results& results) {
  const auto add = [&](const char* name, const Tensor& tensor) {
    if (tensor.size() > 0) results[name] = tensor;
  };
  results["output"] = out.present() ? Tensor::copy_of(out) : result.output;
  add("log_sum_exp", result.log_sum_exp);
  add("row_reference", result.row_reference);
  add("row_sum", result.row_sum);
  add("weights", result.weights);
  add("top.values", result.top.values);
  add("entropy", result.statistics.entropy);
  add("mean_distance", result.statistics.mean_distance);
  add("first_key_mass", result.statistics.first_key_mass);
  const IndexTensor& indices = result.top.indices;
  Tensor as_floats(indices.shape());  // exact: they are small
  for (std::int64_t i = 0; i < indices.size(); ++i) {
    as_floats.data()[i] = static_cast<float>(indices.data()[i]);
  }
  add("top.indices", as_floats);
}

template <typename Gradients>
void add_gradients(const Gradients& gradients, Results& results) {
  results["query gradient"] = gradients.query;
  results["key gradient"] = gradients.key;
  results["value gradient"] = gradients.value;
  for (std::size_t i = 0; i < gradients.bias.size(); ++i) {
    results["score bias gradient " + std::to_string(i)] = gradients.bias[i];
  }
}

std::string difference(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape())) {
    return "shapes " + a.shape().to_string() + " and " + b.shape().to_string();
  }
  const auto bytes = static_cast<std::size_t>(a.size()) * sizeof(float);
  if (bytes == 0 || std::memcmp(a.data(), b.data(), bytes) == 0) return "";
  std::int64_t count = 0;
  std::int64_t first = -1;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const float x = a.data()[i];
    const float y = b.data()[i];
    if (std::memcmp(&x, &y, sizeof x) == 0 || (std::isnan(x) && std::isnan(y))) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  std::ostringstream text;
  text << std::hexfloat << count << " of " << a.size() << " numbers of shape "
       << a.shape().to_string() << " differ, the first at " << first << ": " << a.data()[first]
       << " and " << b.data()[first];
  return text.str();
}

}  // namespace

Results run_op(const AttentionInputs& inputs, const ConstView& output_gradient,
               const AttentionOptions& options) {
  Results results;
  const AttentionResult forward = attention(inputs.query, inputs.key, inputs.value, options);
  add_forward(forward, options.out, results);
  add_gradients(attention_backward(inputs, forward, output_gradient, options,
                                   {.bias_gradient = !options.bias.empty()}),
                results);
  return results;
}

Results run_layer(const MultiHeadAttention& layer, const AttentionInputs& inputs,
                  const ConstView& output_gradient, const ForwardOptions& options) {
  Results results;
  ForwardOptions saving = options;
  saving.save_for_backward = true;
  const AttentionResult forward = layer.forward(inputs, saving);
  add_forward(forward, saving.out, results);
  const LayerGradients gradients = layer.backward(inputs, forward, output_gradient, saving,
                                                  {.bias_gradient = !options.bias.empty()});
  add_gradients(gradients, results);
  for (const WeightField& field : weight_fields()) {
    results[std::string(field.name) + " gradient"] = gradients.weights.*field.tensor;
  }
  return results;
}

Context& shared_context(int threads, std::string_view target) {
  static std::map<std::pair<int, std::string_view>, std::unique_ptr<Context>> contexts;
  auto& context = contexts[{threads, target}];
  if (!context) context = std::make_unique<Context>(threads, target);
  return *context;
}

void require_same(const Tensor& a, const Tensor& b, const std::string& what) {
  const std::string text = difference(a, b);
  if (!text.empty()) RC_FAIL(what + ": " + text);
}

void require_same(const Results& a, const Results& b, const std::string& what) {
  RC_ASSERT(a.size() == b.size());
  for (const auto& [name, tensor] : a) require_same(tensor, b.at(name), what + ", " + name);
}

void require_same_where_both(const Results& a, const Results& b, const std::string& what) {
  for (const auto& [name, tensor] : a) {
    if (b.contains(name)) require_same(tensor, b.at(name), what + ", " + name);
  }
}

}  // namespace headwise::test_support
