// headwise.presets: the conventions of other libraries.
#include "headwise/presets.h"

#include <optional>
#include <string>

#include "bindings.h"
#include "types.h"
#include "weights.h"

namespace headwise::python {

namespace {

using Size = std::int64_t;
using MaybeSize = std::optional<std::int64_t>;
using ReadWeights = AttentionWeights (*)(const AttentionConfig&, const TensorMap&);

constexpr const char* kTorchDoc = R"(torch.nn.MultiheadAttention(embed_dim, num_heads, …)

>>> import headwise
>>> headwise.presets.torch(512, 8, kdim=256).key_inputs
256
)";

constexpr const char* kKerasDoc =
    R"(keras.layers.MultiHeadAttention(num_heads, key_dim, …), built on inputs of these features; with
num_key_value_heads, keras.layers.GroupQueryAttention. value_features: query_features, if not given;
key_features: value_features, as Keras's key is its value. output_shape: of several axes, their product.

>>> import headwise
>>> headwise.presets.keras(8, 64, value_dim=32, query_features=512).value_size
32
)";

constexpr const char* kD2lDoc =
    R"(Dive into Deep Learning: MultiHeadAttention(num_hiddens, num_heads, dropout, bias=False)

>>> import headwise
>>> headwise.presets.d2l(100, 5).key_dim
20
)";

constexpr const char* kPaperDoc =
    R"(Attention Is All You Need, 3.2.2: d_k = d_v = d_model / h, no biases.

>>> import headwise
>>> headwise.presets.paper()
AttentionConfig(num_heads=8, key_dim=64, query_features=512, use_bias=False)
)";

constexpr const char* kTorchWeightsDoc =
    R"(From a state_dict: in_proj_weight (3E,E) or q_proj_weight, k_proj_weight and v_proj_weight;
in_proj_bias; out_proj.weight, out_proj.bias; bias_k, bias_v.

>>> import headwise, numpy
>>> config = headwise.presets.torch(4, 2, bias=False)
>>> state = {"in_proj_weight": numpy.ones((12, 4), numpy.float32),
...          "out_proj.weight": numpy.ones((4, 4), numpy.float32)}
>>> headwise.presets.torch_weights(config, state)["query/kernel"].shape
(4, 4)
)";

constexpr const char* kKerasWeightsDoc =
    R"(query/kernel (Dq,H,dk), query/bias (H,dk), key/…, value/…, gate/…, attention_output/kernel
(H,dv,Do), attention_output/bias (Do).

>>> import headwise, numpy
>>> config = headwise.presets.keras(2, 3, use_bias=False, query_features=4)
>>> arrays = {f"{name}/kernel": numpy.ones((4, 2, 3), numpy.float32)
...           for name in ("query", "key", "value")}
>>> arrays["attention_output/kernel"] = numpy.ones((2, 3, 4), numpy.float32)
>>> headwise.presets.keras_weights(config, arrays)["query/kernel"].shape
(4, 6)
)";

constexpr const char* kFlaxWeightsDoc =
    R"(flax.linen and flax.nnx: query/kernel (D,H,dk), …, out/kernel (H,dk,Do), out/bias; with normalised
queries and keys also query_ln/scale and key_ln/scale (dk).

>>> import headwise, numpy
>>> config = headwise.presets.paper(4, 2)
>>> arrays = {f"{name}/kernel": numpy.ones((4, 2, 2), numpy.float32)
...           for name in ("query", "key", "value")}
>>> arrays["out/kernel"] = numpy.ones((2, 2, 4), numpy.float32)
>>> sorted(headwise.presets.flax_weights(config, arrays))[0]
'attention_output/kernel'
)";

constexpr const char* kD2lWeightsDoc =
    R"(W_q.weight (out,in) … W_o.weight, W_q.bias … (its PyTorch side).

>>> import headwise, numpy
>>> config = headwise.presets.d2l(4, 2)
>>> arrays = {f"W_{name}.weight": numpy.ones((4, 4), numpy.float32) for name in "qkvo"}
>>> headwise.presets.d2l_weights(config, arrays)["value/kernel"].shape
(4, 4)
)";

void bind_weights_reader(nb::module_& module, const char* name, ReadWeights read, const char* doc) {
  module.def(
      name,
      [name, read](const AttentionConfig& config, WeightsGiven tensors) {
        return WeightsMade(to_dict(read(config, tensor_map(name, tensors))));
      },
      nb::arg("config"), nb::arg("tensors"), doc);
}

}  // namespace

void bind_presets(nb::module_& module) {
  using nb::arg;
  const auto none = [](const char* name) { return arg(name) = nb::none(); };
  nb::module_ presets = module.def_submodule("presets", "The conventions of other libraries.");
  presets.def(
      "torch",
      [](Size embed_dim, Size num_heads, float dropout, bool bias, bool add_bias_kv,
         bool add_zero_attn, MaybeSize kdim, MaybeSize vdim) {
        return presets::torch(
            {embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim});
      },
      arg("embed_dim"), arg("num_heads"), arg("dropout") = 0.0F, arg("bias") = true,
      arg("add_bias_kv") = false, arg("add_zero_attn") = false, none("kdim"), none("vdim"),
      kTorchDoc);
  presets.def(
      "keras",
      [](Size num_heads, Size key_dim, MaybeSize value_dim, float dropout, bool use_bias,
         MaybeSize output_shape, bool use_gate, MaybeSize num_key_value_heads, Size query_features,
         MaybeSize value_features, MaybeSize key_features) {
        return presets::keras({num_heads, key_dim, value_dim, dropout, use_bias, output_shape,
                               use_gate, num_key_value_heads, query_features, value_features,
                               key_features});
      },
      arg("num_heads"), arg("key_dim"), none("value_dim"), arg("dropout") = 0.0F,
      arg("use_bias") = true, none("output_shape"), arg("use_gate") = false,
      none("num_key_value_heads"), nb::kw_only(), arg("query_features"), none("value_features"),
      none("key_features"), kKerasDoc);
  presets.def(
      "d2l",
      [](Size num_hiddens, Size num_heads, float dropout, bool bias) {
        return presets::d2l({num_hiddens, num_heads, dropout, bias});
      },
      arg("num_hiddens"), arg("num_heads"), arg("dropout") = 0.0F, arg("bias") = false, kD2lDoc);
  presets.def("paper", &presets::paper, arg("d_model") = 512, arg("heads") = 8, kPaperDoc);
  bind_weights_reader(presets, "torch_weights", &presets::torch_weights, kTorchWeightsDoc);
  bind_weights_reader(presets, "keras_weights", &presets::keras_weights, kKerasWeightsDoc);
  bind_weights_reader(presets, "flax_weights", &presets::flax_weights, kFlaxWeightsDoc);
  bind_weights_reader(presets, "d2l_weights", &presets::d2l_weights, kD2lWeightsDoc);
}

}  // namespace headwise::python
