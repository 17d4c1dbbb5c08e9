// What a layout can hold.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "headwise/layouts.h"

namespace headwise {

namespace {

// Questions to a configuration; each throws unless the answer is the one that the layout needs.
class Limits {
 public:
  Limits(const AttentionConfig& config, WeightLayout layout)
      : c_(config), layout_(name_of(layout)) {}

  void plain_scores() const {
    AttentionConfig plain;
    plain.key_dim = c_.key_dim;
    require(c_.score_scale() == plain.score_scale(), "scale", "1/√key_dim",
            base::to_string(static_cast<double>(c_.score_scale())));
    require(!c_.softcap, "softcap", "none",
            base::to_string(static_cast<double>(c_.softcap.value_or(0.0F))));
  }
  void no_gate() const { require(!c_.use_gate, "use_gate", "no gate", "one"); }
  void no_norm() const {
    require(c_.qk_norm == QkNorm::None, "qk_norm", "no norm of queries and keys", "one");
  }
  void no_extra_keys() const {
    require(!c_.add_bias_kv, "add_bias_kv", "no learned key and value", "one");
    require(!c_.add_zero_attn, "add_zero_attn", "no key and value of zeros", "one");
  }
  void no_groups() const { same("num_kv_heads", "num_heads", c_.kv_heads(), c_.num_heads); }
  void one_head_size() const { same("value_dim", "key_dim", c_.value_size(), c_.key_dim); }
  // Biases in all projections or in none.
  void uniform_biases() const {
    require(c_.has_output_bias() == c_.use_bias, "use_output_bias",
            c_.use_bias ? "a bias, as the other projections have"
                        : "no bias, as the other projections have none",
            c_.use_bias ? "none" : "one");
  }
  void biases() const {
    require(c_.use_bias, "use_bias", "biases", "none");
    require(c_.has_output_bias(), "use_output_bias", "a bias", "none");
  }
  // All heads together are as wide as `features`.
  void heads_fill(const char* argument, std::int64_t features) const {
    same(argument, "num_heads · key_dim", features, c_.num_heads * c_.key_dim);
  }
  void values_as_query() const {
    same("value_features", "query_features", c_.value_inputs(), c_.query_features);
  }
  void one_input_width() const {
    same("key_features", "query_features", c_.key_inputs(), c_.query_features);
    values_as_query();
  }
  void output_as_query() const {
    same("output_features", "query_features", c_.outputs(), c_.query_features);
  }

  void require(bool holds, const char* argument, const std::string& expected,
               const std::string& got) const {
    if (!holds) {
      base::fail("write_layer", argument, expected + " (all that " + layout_ + " can hold)", got);
    }
  }

 private:
  void same(const char* argument, const char* other, std::int64_t got,
            std::int64_t expected) const {
    require(got == expected, argument, std::to_string(expected) + ", as " + other,
            std::to_string(got));
  }

  const AttentionConfig& c_;
  std::string layout_;
};

void require_keras(const AttentionConfig& config, const Limits& limits) {
  limits.plain_scores();
  limits.no_norm();
  limits.no_extra_keys();
  limits.uniform_biases();
  if (config.kv_heads() != config.num_heads) {  // GroupQueryAttention has fewer freedoms
    limits.one_head_size();
    limits.output_as_query();
    limits.values_as_query();  // called on arrays it may have others, but not in a model
  }
}

void require_torch(const AttentionConfig& config, const Limits& limits) {
  limits.plain_scores();
  limits.no_gate();
  limits.no_norm();
  limits.no_groups();
  limits.one_head_size();
  limits.uniform_biases();
  limits.heads_fill("query_features", config.query_features);
  limits.heads_fill("output_features", config.outputs());
}

void require_flax(const AttentionConfig& config, const Limits& limits) {
  limits.plain_scores();
  limits.no_gate();
  limits.no_extra_keys();
  limits.one_head_size();
  limits.uniform_biases();
  limits.require(config.qk_norm != QkNorm::RmsNorm, "qk_norm", "none, or a layer norm",
                 "an RMS norm");
  limits.require(config.qk_norm == QkNorm::None || config.qk_norm_epsilon == 1e-6F,
                 "qk_norm_epsilon", "1e-06",
                 base::to_string(static_cast<double>(config.qk_norm_epsilon)));
  // Only nnx has grouped heads, and it has one width for keys and values.
  limits.require(
      config.kv_heads() == config.num_heads || config.key_inputs() == config.value_inputs(),
      "value_features", "as many as key_features where heads are grouped",
      std::to_string(config.value_inputs()));
}

void require_d2l(const AttentionConfig& config, const Limits& limits) {
  limits.plain_scores();
  limits.no_gate();
  limits.no_norm();
  limits.no_extra_keys();
  limits.no_groups();
  limits.one_head_size();
  limits.uniform_biases();
  limits.heads_fill("output_features", config.outputs());
}

// Also GPT-2's: all of one width, biases everywhere.
void require_bert(const AttentionConfig& config, const Limits& limits) {
  limits.plain_scores();
  limits.no_gate();
  limits.no_norm();
  limits.no_extra_keys();
  limits.no_groups();
  limits.one_head_size();
  limits.biases();
  limits.one_input_width();
  limits.heads_fill("query_features", config.query_features);
  limits.heads_fill("output_features", config.outputs());
}

void require_llama(const AttentionConfig& config, const Limits& limits) {
  limits.plain_scores();
  limits.no_gate();
  limits.no_extra_keys();
  limits.one_head_size();
  limits.one_input_width();
  limits.output_as_query();
  limits.require(config.use_bias || !config.has_output_bias(), "use_output_bias",
                 "no bias, as the other projections have none", "one");
  limits.require(config.qk_norm != QkNorm::LayerNorm, "qk_norm", "none, or an RMS norm",
                 "a layer norm");
}

}  // namespace

void check_layout_holds(WeightLayout layout, const AttentionConfig& config) {
  validate(config);
  const Limits limits(config, layout);
  switch (layout) {
    case WeightLayout::Headwise:
      return;
    case WeightLayout::Keras:
      return require_keras(config, limits);
    case WeightLayout::Torch:
      return require_torch(config, limits);
    case WeightLayout::Flax:
      return require_flax(config, limits);
    case WeightLayout::D2l:
      return require_d2l(config, limits);
    case WeightLayout::Bert:
    case WeightLayout::Gpt2:
      return require_bert(config, limits);
    case WeightLayout::Llama:
      return require_llama(config, limits);
  }
}

}  // namespace headwise
