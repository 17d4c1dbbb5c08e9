#include "headwise/config.h"

#include <cmath>
#include <string>

#include "base/check.h"

namespace headwise {

namespace {

constexpr const char* kFunction = "AttentionConfig";

void require_positive(const char* argument, std::int64_t value) {
  if (value < 1) base::fail(kFunction, argument, "a number ≥ 1", std::to_string(value));
}

// Sizes of flat matrices are products of these; none may overflow before a Shape can look at it.
void require_product(const char* argument, std::int64_t a, std::int64_t b) {
  if (!base::checked_multiply(a, b)) {
    base::fail(kFunction, argument, "a size whose product with the heads fits 64 bits",
               std::to_string(b));
  }
}

void require_number(const char* argument, bool fits, const char* expected, float value) {
  if (!fits) base::fail(kFunction, argument, expected, base::to_string(static_cast<double>(value)));
}

}  // namespace

float AttentionConfig::score_scale() const {
  return scale.value_or(1.0F / std::sqrt(static_cast<float>(key_dim)));
}

void validate(const AttentionConfig& config) {
  require_positive("num_heads", config.num_heads);
  require_positive("num_kv_heads", config.kv_heads());
  if (config.num_heads % config.kv_heads() != 0) {
    base::fail(kFunction, "num_kv_heads",
               "a divisor of num_heads = " + std::to_string(config.num_heads),
               std::to_string(config.kv_heads()));
  }
  require_positive("key_dim", config.key_dim);
  require_positive("value_dim", config.value_size());
  require_positive("query_features", config.query_features);
  require_positive("key_features", config.key_inputs());
  require_positive("value_features", config.value_inputs());
  require_positive("output_features", config.outputs());
  require_product("key_dim", config.num_heads, config.key_dim);
  require_product("value_dim", config.num_heads, config.value_size());
  require_number("dropout", config.dropout >= 0.0F && config.dropout < 1.0F, "a number in [0, 1)",
                 config.dropout);
  if (config.scale) {
    require_number("scale", std::isfinite(*config.scale), "a finite number", *config.scale);
  }
  if (config.softcap) {
    require_number("softcap", std::isfinite(*config.softcap) && *config.softcap > 0.0F,
                   "a finite number > 0", *config.softcap);
  }
  require_number("qk_norm_epsilon",
                 std::isfinite(config.qk_norm_epsilon) && config.qk_norm_epsilon >= 0.0F,
                 "a finite number ≥ 0", config.qk_norm_epsilon);
}

}  // namespace headwise
