#include "layouts/dialects.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace headwise::layouts {

namespace {

using layer::Axes;
using layer::linear_tensors;
using layer::StoredTensor;
using Tensors = std::vector<StoredTensor>;

Tensors headwise_tensors() {
  Tensors tensors;
  for (const WeightField& field : weight_fields()) {
    tensors.push_back({field.name, field.name, Axes::Flat});
  }
  return tensors;
}

// "query/kernel" → "query_dense/vars/0", as Keras files a variable under the attributes that lead to
// it. Attributes that begin with "_" are those of GroupQueryAttention, and every layer's gate.
Tensors keras_file_tensors(const std::string& underscore) {
  Tensors tensors;
  for (const StoredTensor& stored : layer::keras_tensors()) {
    std::string part = stored.name.substr(0, stored.name.find('/'));
    if (part == "attention_output") part = "output";
    part.insert(0, part == "gate" ? "_" : underscore);
    part += stored.name.ends_with("/kernel") ? "_dense/vars/0" : "_dense/vars/1";
    tensors.push_back({part, stored.role, stored.axes});
  }
  return tensors;
}

// The same layers written by JAX or TensorFlow have kernels (in, out) instead of weights (out, in).
Tensors with_kernels(Tensors tensors) {
  const Tensors linear = tensors;
  for (const StoredTensor& stored : linear) {
    if (stored.axes != Axes::OutIn) continue;
    std::string name = stored.name;
    name.replace(name.rfind("weight"), std::string::npos, "kernel");
    tensors.push_back({name, stored.role, Axes::Flat});
  }
  return tensors;
}

Tensors llama_tensors() {
  Tensors tensors = linear_tensors({"q_proj", "k_proj", "v_proj", "o_proj"});
  tensors.push_back({"q_norm.weight", "query_norm/scale", Axes::Flat});
  tensors.push_back({"k_norm.weight", "key_norm/scale", Axes::Flat});
  return tensors;
}

Tensors gpt2_tensors() {
  return {{"c_attn.weight", "in/kernel", Axes::Flat},
          {"c_attn.bias", "in/bias", Axes::Flat},
          {"c_proj.weight", "attention_output/kernel", Axes::Flat},
          {"c_proj.bias", "attention_output/bias", Axes::Flat}};
}

}  // namespace

const std::vector<Dialect>& dialects() {
  using enum WeightLayout;
  static const std::vector<Dialect> all = {
      {Headwise, headwise_tensors()},
      {Keras, layer::keras_tensors()},
      {Keras, keras_file_tensors("")},
      {Keras, keras_file_tensors("_")},
      {Torch, layer::torch_tensors()},
      {Flax, layer::flax_tensors()},
      {D2l, with_kernels(layer::d2l_tensors())},
      {Bert,
       with_kernels(linear_tensors({"self.query", "self.key", "self.value", "output.dense"}))},
      // ViT and its kin, as older checkpoints name them
      {Bert, with_kernels(linear_tensors(
                 {"attention.query", "attention.key", "attention.value", "output.dense"}))},
      {Bert, linear_tensors({"q_lin", "k_lin", "v_lin", "out_lin"})},            // DistilBERT
      {Bert, with_kernels(linear_tensors({"query", "key", "value", "dense"}))},  // ALBERT
      {Bert, with_kernels(linear_tensors({"q_proj", "k_proj", "v_proj", "out_proj"}))},  // BART …
      {Llama, with_kernels(llama_tensors())},
      {Gpt2, gpt2_tensors()},
  };
  return all;
}

bool same_name(std::string_view a, std::string_view b) {
  const auto plain = [](char c) { return c == '.' ? '/' : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return plain(x) == plain(y); });
}

const Dialect& written_dialect(WeightLayout layout) {
  const auto& all = dialects();
  return *std::find_if(all.begin(), all.end(),
                       [&](const Dialect& dialect) { return dialect.layout == layout; });
}

std::string key_of(const StoredTensor& stored) {
  if (stored.axes != Axes::OutIn) return stored.role;
  return stored.role.substr(0, stored.role.rfind('/')) + "/weight";
}

StoredTensor stored_under_key(const std::string& key, int rank) {
  const bool out_in = key.ends_with("/weight");
  const std::string role = out_in ? key.substr(0, key.rfind('/')) + "/kernel" : key;
  const bool packed = role == "in/kernel" || role == "in/bias";
  const auto& fields = weight_fields();
  const bool known = std::any_of(fields.begin(), fields.end(),
                                 [&](const WeightField& field) { return field.name == role; });
  if (!packed && !known) base::fail("read_layer", "tensors", "names of weights", "'" + key + "'");
  if (out_in) return {"", role, Axes::OutIn};
  const bool extra = role.starts_with("extra_");
  const int flat_rank = role.ends_with("/kernel") ? 2 : 1;
  if (packed || rank == flat_rank) return {"", role, Axes::Flat};
  return {"", role, extra && rank == 3 ? Axes::Row : Axes::ByHead};
}

}  // namespace headwise::layouts
