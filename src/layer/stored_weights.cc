#include "layer/stored_weights.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/check.h"

namespace headwise::layer {

namespace {

const WeightField* field_named(const std::string& name) {
  const auto& fields = weight_fields();
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const WeightField& field) { return field.name == name; });
  assert(found != fields.end());
  return &*found;
}

// No shape can have it and anything else.
constexpr std::int64_t kTooLarge = std::numeric_limits<std::int64_t>::max();

bool is_packed(const StoredTensor& stored) { return stored.role.starts_with("in/"); }

// As AttentionWeights has it; of packed ones, side by side.
Shape flat_shape(const StoredTensor& stored, const AttentionConfig& config) {
  if (!is_packed(stored)) return fields_of(stored).front()->flat_shape(config);
  std::int64_t width = 0;
  for (const WeightField* field : fields_of(stored)) {
    const Shape part = field->flat_shape(config);
    width = base::checked_add(width, part[part.rank() - 1]).value_or(kTooLarge);
  }
  return stored.role == "in/kernel" ? Shape{config.query_features, width} : Shape{width};
}

// The stored numbers in AttentionWeights' order of axes.
template <typename T>
TensorView<T> flat_view(const StoredTensor& stored, const TensorView<T>& view,
                        const AttentionConfig& config) {
  if (stored.axes == Axes::OutIn) return view.permuted({1, 0});
  return {view.data(), flat_shape(stored, config)};
}

void copy(const ConstView& from, const MutableView& to) {
  for (std::int64_t i = 0; i < from.extent(0); ++i) {
    if (from.rank() == 1) {
      to(i) = from(i);
      continue;
    }
    for (std::int64_t j = 0; j < from.extent(1); ++j) to(i, j) = from(i, j);
  }
}

}  // namespace

std::vector<const WeightField*> fields_of(const StoredTensor& stored) {
  if (!is_packed(stored)) return {field_named(stored.role)};
  const std::string part = stored.role.substr(2);
  return {field_named("query" + part), field_named("key" + part), field_named("value" + part)};
}

bool is_stored(const StoredTensor& stored, const AttentionConfig& config) {
  if (stored.role == "in/kernel" && (config.key_inputs() != config.query_features ||
                                     config.value_inputs() != config.query_features)) {
    return false;
  }
  const auto fields = fields_of(stored);
  return std::all_of(fields.begin(), fields.end(),
                     [&](const WeightField* field) { return field->present(config); });
}

Shape stored_shape(const StoredTensor& stored, const AttentionConfig& config) {
  const Shape flat = flat_shape(stored, config);
  switch (stored.axes) {
    case Axes::ByHead:
      return fields_of(stored).front()->head_shape(config);
    case Axes::OutIn:
      return {flat[1], flat[0]};
    case Axes::Row:
      return {1, 1, flat[0]};
    case Axes::Flat:
      break;
  }
  return flat;
}

bool fits(const StoredTensor& stored, const Shape& shape, const AttentionConfig& config) {
  const Shape expected = stored_shape(stored, config);
  if (shape == expected) return true;
  const int fixed = expected.rank() - 1;
  return stored.axes == Axes::ByHead && stored.role.starts_with("attention_output/") &&
         shape.rank() >= fixed && shape.element_count() == expected.element_count() &&
         std::equal(expected.begin(), expected.begin() + fixed, shape.begin());
}

void unpack(const StoredTensor& stored, Tensor tensor, const AttentionConfig& config,
            AttentionWeights& weights) {
  assert(fits(stored, tensor.shape(), config));
  const auto fields = fields_of(stored);
  if (fields.size() == 1 && stored.axes != Axes::OutIn) {
    weights.*fields.front()->tensor = std::move(tensor).reshaped(flat_shape(stored, config));
    return;
  }
  const ConstView all = flat_view(stored, std::as_const(tensor).view(), config);
  const int last = all.rank() - 1;
  std::int64_t begin = 0;
  for (const WeightField* field : fields) {
    const std::int64_t end = begin + field->flat_shape(config)[last];
    weights.*field->tensor = Tensor::copy_of(all.sliced(last, begin, end));
    begin = end;
  }
}

Tensor pack(const StoredTensor& stored, const AttentionConfig& config,
            const AttentionWeights& weights) {
  const auto fields = fields_of(stored);
  if (fields.size() == 1 && stored.axes != Axes::OutIn) {
    return (weights.*fields.front()->tensor).reshaped(stored_shape(stored, config));
  }
  Tensor tensor(stored_shape(stored, config));
  const MutableView all = flat_view(stored, tensor.view(), config);
  const int last = all.rank() - 1;
  std::int64_t begin = 0;
  for (const WeightField* field : fields) {
    const Tensor& part = weights.*field->tensor;
    const std::int64_t end = begin + part.extent(last);
    copy(part, all.sliced(last, begin, end));
    begin = end;
  }
  return tensor;
}

const std::vector<StoredTensor>& keras_tensors() {
  static const std::vector<StoredTensor> tensors = [] {
    std::vector<StoredTensor> list;
    for (const char* part : {"query", "key", "value", "gate", "attention_output"}) {
      for (const char* kind : {"/kernel", "/bias"}) {
        const std::string name = std::string(part) + kind;
        list.push_back({name, name, Axes::ByHead});
      }
    }
    return list;
  }();
  return tensors;
}

const std::vector<StoredTensor>& flax_tensors() {
  static const std::vector<StoredTensor> tensors = {
      {"query/kernel", "query/kernel", Axes::ByHead},
      {"query/bias", "query/bias", Axes::ByHead},
      {"key/kernel", "key/kernel", Axes::ByHead},
      {"key/bias", "key/bias", Axes::ByHead},
      {"value/kernel", "value/kernel", Axes::ByHead},
      {"value/bias", "value/bias", Axes::ByHead},
      {"out/kernel", "attention_output/kernel", Axes::ByHead},
      {"out/bias", "attention_output/bias", Axes::ByHead},
      {"query_ln/scale", "query_norm/scale", Axes::Flat},
      {"key_ln/scale", "key_norm/scale", Axes::Flat},
  };
  return tensors;
}

const std::vector<StoredTensor>& torch_tensors() {
  static const std::vector<StoredTensor> tensors = {
      {"in_proj_weight", "in/kernel", Axes::OutIn},
      // where keys or values have features of their own
      {"q_proj_weight", "query/kernel", Axes::OutIn},
      {"k_proj_weight", "key/kernel", Axes::OutIn},
      {"v_proj_weight", "value/kernel", Axes::OutIn},
      {"in_proj_bias", "in/bias", Axes::Flat},
      {"out_proj.weight", "attention_output/kernel", Axes::OutIn},
      {"out_proj.bias", "attention_output/bias", Axes::Flat},
      {"bias_k", "extra_key", Axes::Row},
      {"bias_v", "extra_value", Axes::Row},
  };
  return tensors;
}

const std::vector<StoredTensor>& d2l_tensors() {
  static const std::vector<StoredTensor> tensors = linear_tensors({"W_q", "W_k", "W_v", "W_o"});
  return tensors;
}

std::vector<StoredTensor> linear_tensors(const LinearNames& names) {
  std::vector<StoredTensor> list;
  const auto add = [&](const std::string& name, const std::string& part) {
    list.push_back({name + ".weight", part + "/kernel", Axes::OutIn});
    list.push_back({name + ".bias", part + "/bias", Axes::Flat});
  };
  add(names.query, "query");
  add(names.key, "key");
  add(names.value, "value");
  add(names.output, "attention_output");
  return list;
}

}  // namespace headwise::layer
