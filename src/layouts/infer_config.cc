#include "layouts/infer_config.h"

#include <cstdint>
#include <set>
#include <string_view>

#include "headwise/error.h"
#include "layouts/own_hints.h"

namespace headwise::layouts {

namespace {

using layer::Axes;
using layer::StoredTensor;

// A projection as one matrix, and its heads if the shape shows them.
struct Matrix {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::optional<std::int64_t> heads = {};
  std::optional<std::int64_t> head_size = {};
};

Matrix matrix_of(const Member& member) {
  const Shape& shape = member.tensor->shape;
  const bool output = member.stored->role == "attention_output/kernel";
  switch (member.stored->axes) {
    case Axes::OutIn:
      return {shape[1], shape[0]};
    case Axes::ByHead:
      // Products of some extents fit because that of all does, and none is zero.
      if (output) {
        const std::int64_t in = shape[0] * shape[1];
        return {in, shape.element_count() / in, shape[0], shape[1]};
      }
      return {shape[0], shape[1] * shape[2], shape[1], shape[2]};
    case Axes::Flat:
    case Axes::Row:
      break;
  }
  return {shape[0], shape[1]};
}

struct Matrices {
  Matrix query, key, value, output;
};

Matrices matrices_of(const Group& group) {
  const Matrix output = matrix_of(*group.find("attention_output/kernel"));
  if (const Member* packed = group.find("in/kernel")) {
    Matrix third = matrix_of(*packed);
    third.out /= 3;
    return {third, third, third, output};
  }
  return {matrix_of(*group.find("query/kernel")), matrix_of(*group.find("key/kernel")),
          matrix_of(*group.find("value/kernel")), output};
}

// ---- What keeps a group from being a layer --------------------------------------------------------

std::string quoted(const std::string& name) { return "'" + name + "'"; }

// Of a tensor below the layer's front that is none of its parts. What it does nobody can tell, and to
// pass it over might make the layer another one.
std::string stray(const Group& group, const NamedShape& tensor) {
  const std::string rest(group.rest_of(tensor));
  for (const StoredTensor& stored : group.dialect->tensors) {
    if (!same_name(stored.name, rest)) continue;
    int rank = 1;
    while (!rank_fits(stored, rank)) ++rank;
    return quoted(tensor.name) + ": expected " + std::to_string(rank) +
           (rank == 1 ? " axis" : " axes") + ", got shape " + tensor.shape.to_string();
  }
  return quoted(rest) + " is not understood";
}

// Empty if nothing does. What shapes say of each other is left to checked_config.
std::string defect(const Group& group) {
  std::set<std::string_view> roles;
  for (const Member& member : group.members) {
    const std::string& name = member.tensor->name;
    const Shape& shape = member.tensor->shape;
    if (shape.element_count() == 0) return quoted(name) + " is empty: " + shape.to_string();
    if (!roles.insert(member.stored->role).second) {
      return "two tensors are its " + member.stored->role + ", one of them " + quoted(name);
    }
  }
  if (group.kernels() < 4) {
    for (const char* role :
         {"query/kernel", "key/kernel", "value/kernel", "attention_output/kernel"}) {
      if (!roles.contains(role)) return std::string("its ") + role + " is missing";
    }
  }
  if (roles.contains("in/kernel") && roles.contains("query/kernel")) {
    return "its query kernel is there twice, packed with others and alone";
  }
  const Member* packed = group.find("in/kernel");
  if (packed != nullptr && matrix_of(*packed).out % 3 != 0) {
    return quoted(packed->tensor->name) + " of shape " + packed->tensor->shape.to_string() +
           " does not hold three projections of one width";
  }
  return group.strays.empty() ? "" : stray(group, *group.strays.front());
}

// ---- Heads --------------------------------------------------------------------------------------

// The size of a query and key head, by whatever tells it: heads that shapes show, the norm of one
// head, or the caller.
std::optional<std::int64_t> told_head_size(const Group& group, const Matrices& matrices,
                                           const LayerHints& hints) {
  if (matrices.query.head_size) return matrices.query.head_size;
  if (const Member* norm = group.find("query_norm/scale")) {
    // As wide as all heads together it may be a norm over all of them, which is another function.
    const std::int64_t width = norm->tensor->shape[0];
    if (width != matrices.query.out) return width;
  }
  const auto divided = [](std::int64_t width, std::optional<std::int64_t> heads) {
    return heads && *heads >= 1 && width % *heads == 0 ? std::optional(width / *heads)
                                                       : std::nullopt;
  };
  if (hints.num_heads) return divided(matrices.query.out, hints.num_heads);
  if (hints.key_dim) return hints.key_dim;
  return divided(matrices.key.out, hints.num_kv_heads);
}

std::string widths(const Matrices& matrices) {
  return "queries have " + std::to_string(matrices.query.out) + " columns, keys " +
         std::to_string(matrices.key.out) + ", values " + std::to_string(matrices.value.out);
}

bool any_size(const LayerHints& hints) {
  return hints.num_heads || hints.num_kv_heads || hints.key_dim;
}

std::string hints_do_not_fit(const Matrices& matrices, const LayerHints& hints) {
  std::string text;
  const auto add = [&](const char* name, std::optional<std::int64_t> value) {
    if (value) text += (text.empty() ? "" : ", ") + (name + std::to_string(*value));
  };
  add("num_heads ", hints.num_heads);
  add("num_kv_heads ", hints.num_kv_heads);
  add("key_dim ", hints.key_dim);
  return text + " do not fit its projections: " + widths(matrices);
}

bool contradicts(const LayerHints& hints, const AttentionConfig& config) {
  return hints.num_heads.value_or(config.num_heads) != config.num_heads ||
         hints.num_kv_heads.value_or(config.kv_heads()) != config.kv_heads() ||
         hints.key_dim.value_or(config.key_dim) != config.key_dim;
}

bool divides(std::int64_t divisor, std::int64_t number) {
  return divisor >= 1 && number % divisor == 0;
}

// Features, heads and sizes; nullopt where widths are no multiples of each other.
std::optional<AttentionConfig> sizes(const Matrices& matrices, std::int64_t key_dim) {
  if (!divides(key_dim, matrices.query.out) || !divides(key_dim, matrices.key.out)) return {};
  AttentionConfig config;
  config.num_heads = matrices.query.out / key_dim;
  config.key_dim = key_dim;
  const std::int64_t kv_heads = matrices.key.out / key_dim;
  if (!divides(kv_heads, matrices.value.out) || !divides(kv_heads, config.num_heads)) return {};
  const std::int64_t value_dim = matrices.value.out / kv_heads;
  if (kv_heads != config.num_heads) config.num_kv_heads = kv_heads;
  if (value_dim != key_dim) config.value_dim = value_dim;
  config.query_features = matrices.query.in;
  if (matrices.key.in != config.query_features) config.key_features = matrices.key.in;
  if (matrices.value.in != config.key_inputs()) config.value_features = matrices.value.in;
  if (matrices.output.out != config.query_features) config.output_features = matrices.output.out;
  return config;
}

void set_options(const Group& group, const LayerHints& hints, AttentionConfig& config) {
  const auto has = [&](const char* role) { return group.find(role) != nullptr; };
  config.use_bias = has("in/bias") || has("query/bias") || has("key/bias") || has("value/bias");
  const bool output_bias = has("attention_output/bias");
  if (output_bias != config.use_bias) config.use_output_bias = output_bias;
  config.use_gate = has("gate/kernel");
  config.add_bias_kv = has("extra_key");
  if (has("query_norm/scale")) {
    config.qk_norm =
        group.dialect->layout == WeightLayout::Llama ? QkNorm::RmsNorm : QkNorm::LayerNorm;
  }
  if (group.dialect->layout == WeightLayout::Keras) return;  // Keras has no such options
  if (hints.qk_norm_epsilon && config.qk_norm == QkNorm::RmsNorm) {
    config.qk_norm_epsilon = *hints.qk_norm_epsilon;
  }
  config.scale = hints.scale;
  const std::size_t place = hints.scale_by_place ? place_of(group.front).value_or(0) : 0;
  if (place > 0) config.scale = config.score_scale() / static_cast<float>(1 + place);
  config.softcap = hints.softcap;
}

// What a model does to its layers that no configuration has; empty if nothing.
std::string refusal(const Group& group, const LayerHints& hints, const AttentionConfig& config) {
  const WeightLayout layout = group.dialect->layout;
  if (layout == WeightLayout::Keras) return "";
  if (config.qk_norm != QkNorm::None && layout == WeightLayout::Headwise) {
    return "the kind of its norms is not told: the file has lost its metadata";
  }
  if (config.qk_norm != QkNorm::None && hints.norms_add_one) {
    return "its norms of queries and keys multiply by 1 + scale, which no configuration has";
  }
  if (config.qk_norm == QkNorm::None && hints.normed) {
    return "its model has norms of queries and keys, but the file has no weights of them";
  }
  if (hints.scale_by_place && !place_of(group.front)) {
    return "its scale depends on its place in the model, which its name does not tell";
  }
  return hints.refusal;
}

// Whisper's keys have no bias where its queries and values have one.
bool may_be_zero(const WeightField& field) {
  const std::string_view name = field.name;
  return name == "query/bias" || name == "key/bias" || name == "value/bias";
}

// Empty if the tensors are those of such a layer.
std::string misfit(const Group& group, const AttentionConfig& config) {
  std::set<const WeightField*> filled;
  for (const auto& [stored, tensor] : group.members) {
    if (!is_stored(*stored, config)) {
      return quoted(tensor->name) + " does not belong to a layer of its configuration";
    }
    if (!fits(*stored, tensor->shape, config)) {
      return quoted(tensor->name) + ": expected shape " +
             stored_shape(*stored, config).to_string() + ", got " + tensor->shape.to_string();
    }
    for (const WeightField* field : fields_of(*stored)) filled.insert(field);
  }
  for (const WeightField& field : weight_fields()) {
    if (field.present(config) && !filled.contains(&field) && !may_be_zero(field)) {
      return std::string("its ") + field.name + " is missing";
    }
  }
  return "";
}

}  // namespace

Inferred infer_config(const Group& group, const LayerHints& hints) {
  if (std::string problem = defect(group); !problem.empty()) return {{}, problem};
  const Matrices matrices = matrices_of(group);
  const auto key_dim = told_head_size(group, matrices, hints);
  if (!key_dim && !any_size(hints)) {
    const char* who = hints.heads_differ
                          ? "config.json does not tell which of several is its number of heads"
                          : "the file does not tell its number of heads";
    return {{},
            std::string(who) + " (heads · key_dim = " + std::to_string(matrices.query.out) + ")"};
  }
  auto config = key_dim ? sizes(matrices, *key_dim) : std::nullopt;
  const bool shows_heads = matrices.query.heads.has_value();
  if (!shows_heads && any_size(hints) && (!config || contradicts(hints, *config))) {
    return {{}, hints_do_not_fit(matrices, hints)};
  }
  if (!config) return {{}, "its projections do not fit each other: " + widths(matrices)};
  set_options(group, hints, *config);
  if (std::string problem = refusal(group, hints, *config); !problem.empty()) return {{}, problem};
  return checked_config(group, *config);
}

Inferred checked_config(const Group& group, const AttentionConfig& config) {
  if (std::string problem = defect(group); !problem.empty()) return {{}, problem};
  try {
    validate(config);
    std::string problem = misfit(group, config);
    return problem.empty() ? Inferred{config, ""} : Inferred{{}, problem};
  } catch (const ArgumentError& error) {  // shapes that the sizes call for and that cannot be
    const std::string function = "[" + error.function() + "] ";  // which the reader did not call
    return {{}, std::string(error.what()).substr(function.size())};
  }
}

}  // namespace headwise::layouts
