#include "layer_json.h"

#include <cstdint>
#include <vector>

namespace headwise::cli {

namespace {

const char* norm_name(QkNorm norm) {
  switch (norm) {
    case QkNorm::RmsNorm:
      return "rms";
    case QkNorm::LayerNorm:
      return "layer";
    case QkNorm::None:
      break;
  }
  return "none";
}

}  // namespace

Json shape_json(const Shape& shape) {
  return std::vector<std::int64_t>(shape.begin(), shape.end());
}

Json config_json(const AttentionConfig& config) {
  return {{"num_heads", config.num_heads},
          {"num_kv_heads", config.kv_heads()},
          {"key_dim", config.key_dim},
          {"value_dim", config.value_size()},
          {"query_features", config.query_features},
          {"key_features", config.key_inputs()},
          {"value_features", config.value_inputs()},
          {"output_features", config.outputs()},
          {"use_bias", config.use_bias},
          {"use_output_bias", config.has_output_bias()},
          {"scale", config.score_scale()},
          {"softcap", config.softcap ? Json(*config.softcap) : Json(nullptr)},
          {"use_gate", config.use_gate},
          {"qk_norm", norm_name(config.qk_norm)},
          {"add_bias_kv", config.add_bias_kv},
          {"add_zero_attn", config.add_zero_attn}};
}

}  // namespace headwise::cli
