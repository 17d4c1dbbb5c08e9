// Attention layers in files of other libraries: which tensors belong to one, under which names, in
// which order of axes.
//
//   names, shapes, metadata ──find_layers──► FoundLayer… ──read_layer──► LayerParts
//   LayerParts ──write_layer──► names, tensors, metadata of another library
//
// Only numbers move: what is read, written and read again has the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/config.h"
#include "headwise/layer.h"
#include "headwise/tensor.h"
#include "headwise/transforms.h"
#include "headwise/weights.h"

namespace headwise {

enum class WeightLayout {
  Headwise,  // query/kernel (Dq, Hq·dk) …, configuration in the metadata
  Keras,  // query/kernel (Dq, H, dk) …, attention_output/…; in .weights.h5 query_dense/vars/0 …
  Torch,  // in_proj_weight (3E, E) or q_proj_weight …, out_proj.weight
  Flax,   // query/kernel (Dq, H, dk) …, out/kernel
  D2l,    // W_q.weight (out, in) …, or W_q/kernel (in, out)
  Bert,  // attention.self.query.weight (out, in) …, attention.output.dense.weight; also the names of
         // DistilBERT (q_lin), ALBERT (attention.dense), older ViTs and of BART, OPT and Whisper
         // (q_proj …, out_proj)
  Llama,  // q_proj.weight (out, in) …, o_proj.weight; rotary positions outside the weights
  Gpt2    // c_attn.weight (E, 3E), c_proj.weight
};
std::string_view name_of(WeightLayout layout);                           // "torch"
std::optional<WeightLayout> weight_layout_named(std::string_view name);  // nullopt: no such layout

// What a file says of a tensor without reading it.
struct NamedShape {
  std::string name;
  Shape shape;
};

// What shapes do not tell: torch, d2l, BERT, Llama and GPT-2 files do not say how many heads there
// are. One of the first three tells the other two. A layer that says more itself does not need them.
struct LayerHints {
  std::optional<std::int64_t> num_heads = {};
  std::optional<std::int64_t> num_kv_heads = {};
  std::optional<std::int64_t> key_dim = {};
  std::optional<float> scale = {};            // 1/√key_dim
  std::optional<float> softcap = {};          // none
  std::optional<float> qk_norm_epsilon = {};  // 1e-6
  // As in Gemma: queries and keys are multiplied by 1 + the norm's scale.
  bool norms_add_one = false;
  // As in GPT-2, if asked: the scale is divided by 1 + the layer's place.
  bool scale_by_place = false;
  bool normed = false;        // queries and keys are, whether there are weights for that or not
  bool heads_differ = false;  // num_heads is open because parts of the model have different ones
  std::string refusal = {};   // why no layer of the model can be read; empty: nothing against it
  // What the model does outside the weights.
  bool rotary = false;                        // rotary positions
  bool causal = false;                        // a causal mask in self-attention
  std::vector<std::string> notes = {};        // of every layer
  std::vector<std::string> place_notes = {};  // of the layer at that place; "" for none
  // Towers, parts of the model that have hints of their own: layers with a part of their name that
  // is, or begins with, one of `names`.
  std::vector<std::string> names = {};  // of a tower: "encoder", "vision*"
  std::vector<LayerHints> towers = {};
};
// From the text of a Hugging Face config.json; nothing where it says nothing, or says two different
// things of two parts of a model. Throws ArgumentError if it is no JSON object.
LayerHints hints_from_config(std::string_view config_json);

struct FoundLayer {
  std::string
      name;  // what the tensors' names have in common: "encoder.layer.0.attention"; may be ""
  WeightLayout layout = WeightLayout::Headwise;
  // nullopt: the layer cannot be read; `missing` says what would tell its number of heads, or what
  // is wrong with its tensors.
  std::optional<AttentionConfig> config = {};
  std::string missing = {};
  // What it is → its name in the file: "query/kernel", "query/bias", …, "attention_output/kernel",
  // as weight_fields() names them. "…/weight" instead of "…/kernel" is (out, in); "in/…" holds query,
  // key and value side by side.
  std::map<std::string, std::string> tensors = {};
  std::vector<std::string> notes = {};  // what the layer's model does that is not in these weights
  bool rotary = false;  // positions turn pairs of numbers of its queries and keys, or may do so
  std::vector<std::int64_t> output_axes = {};  // of Keras's output_shape, where they are several
};

// Every attention layer, in natural order of names (layer.2 before layer.10). Tensors that belong to
// no attention layer are passed over; a layer with one of its four kernels missing is listed without
// a configuration. Takes time in proportion to the names.
std::vector<FoundLayer> find_layers(std::span<const NamedShape> tensors,
                                    const std::map<std::string, std::string>& metadata = {},
                                    const LayerHints& hints = {});

using TensorSource = std::function<Tensor(const std::string& name)>;
// Needs a layer whose configuration is known. Where only some of query, key and value have a bias
// (Whisper's keys have none), the others get one of zeros.
LayerParts read_layer(const FoundLayer& found, const TensorSource& source);

// A layer as another library stores it. `metadata` restores what shapes do not tell.
struct StoredLayer {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
};
// Throws ArgumentError for what the layout cannot hold, and names it: torch has no value_dim of its own,
// Keras no scale but 1/√key_dim.
void check_layout_holds(WeightLayout layout, const AttentionConfig& config);
// The same for what does not fit. `name` goes in front of the tensors' names.
StoredLayer write_layer(const LayerParts& layer, WeightLayout layout, const std::string& name = "");

struct NamedLayer {
  std::string name;
  LayerParts parts;
};
// A whole Keras model, as .weights.h5 and .keras hold it: each layer with inputs of its own, in the
// order query, value, key, and an output of its own. The tensors have the names of the saved file
// ("layers/multi_head_attention/query_dense/vars/0"); the metadata are attributes of its groups
// ("layers/multi_head_attention/vars@name") and the documents "config.json" and "metadata.json".
// Throws ArgumentError as write_layer does.
StoredLayer keras_model_of(std::span<const NamedLayer> layers);

// The same function with scale 1/√key_dim, all that most layouts can hold: queries (with qk_norm: the
// norm's scale) are multiplied by what is missing. Rounds once, unless that is a power of two.
LayerParts with_default_scale(const LayerParts& layer);

// What two layers make of the same input, or each of its own.
struct LayerDifference {
  bool same_bits = false;     // of the outputs
  double output_error = 0.0;  // √(Σ(a − b)² / Σa²) over the output
  // For each head; empty if the numbers of heads differ.
  std::vector<double> weight_changes = {};  // the largest difference of an attention weight
  // √(Σ(a − b)² / Σa²) over the scores, each row of them about its mean: softmax does not see that.
  // Empty with qk_norm as well.
  std::vector<double> score_errors = {};
};
// Inputs are (batch, tokens, features).
LayerDifference compare_layers(const LayerParts& a, const AttentionInputs& inputs_of_a,
                               const LayerParts& b, const AttentionInputs& inputs_of_b);

}  // namespace headwise
