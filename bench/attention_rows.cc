#include "attention_rows.h"

#include <memory>
#include <utility>

namespace headwise::bench {

namespace {

Shape tensor_shape(const HeadShape& s, std::int64_t rows, std::int64_t heads) {
  if (s.layout == Layout::HeadsFirst) return {s.batch, heads, rows, s.size};
  return {s.batch, rows, heads, s.size};
}

// Everything a row holds between its runs.
struct Heads {
  Heads(const HeadShape& s, const MakeOptions& make_options)
      : query(Tensor::uniform(tensor_shape(s, s.queries, s.heads), 1, -1.0F, 1.0F)),
        key(Tensor::uniform(tensor_shape(s, s.keys, s.kv_heads), 2, -1.0F, 1.0F)),
        value(Tensor::uniform(tensor_shape(s, s.keys, s.kv_heads), 3, -1.0F, 1.0F)),
        output(query.shape()) {
    if (make_options) options = make_options();
    options.layout = s.layout;
    if (options.packed) flatten();
    options.out = output.view();  // no fresh pages for every run
  }
  // Packed sequences stand one after the other: (1,H,T,d) loses its batch axis.
  void flatten() {
    for (Tensor* t : {&query, &key, &value, &output}) {
      *t = std::move(*t).reshaped({t->extent(1), t->extent(2), t->extent(3)});
    }
  }

  Tensor query;
  Tensor key;
  Tensor value;
  Tensor output;
  AttentionOptions options;
};

Case described(Case row, const HeadShape& shape, double pairs) {
  row.pairs = pairs < 0.0 ? shape.all_pairs() : pairs;
  row.bytes = shape.bytes();
  if (row.shape.empty()) row.shape = shape.to_string();
  return row;
}

}  // namespace

double HeadShape::bytes() const {
  return 2.0 * sizeof(float) * static_cast<double>(batch * heads * queries * size) +
         key_value_bytes();
}

double HeadShape::key_value_bytes() const {
  return 2.0 * sizeof(float) * static_cast<double>(batch * kv_heads * keys * size);
}

std::string HeadShape::to_string() const {
  std::string text = batch == 1 ? "" : std::to_string(batch) + " × ";
  text += std::to_string(heads);
  if (kv_heads != heads) text += "/" + std::to_string(kv_heads);
  text += heads == 1 ? " head, " : " heads, ";
  text +=
      queries == keys ? std::to_string(keys) : std::to_string(queries) + "→" + std::to_string(keys);
  return text + ", d " + std::to_string(size);
}

HeadShape self_attention(std::int64_t batch, std::int64_t heads, std::int64_t length,
                         std::int64_t size) {
  return {batch, length, length, heads, heads, size};
}

double causal_pairs(std::int64_t length) {
  return static_cast<double>(length) * static_cast<double>(length + 1) / 2.0;
}

double window_pairs(std::int64_t length, std::int64_t left) {
  if (left >= length) return causal_pairs(length);
  return causal_pairs(left + 1) +
         static_cast<double>(length - left - 1) * static_cast<double>(left + 1);
}

double forward_flops(double pairs, std::int64_t size) {
  return pairs * 4.0 * static_cast<double>(size);
}

double backward_flops(double pairs, std::int64_t size) {
  return pairs * 10.0 * static_cast<double>(size);
}

Case forward_row(Case row, const HeadShape& shape, double pairs, const MakeOptions& options) {
  row = described(std::move(row), shape, pairs);
  row.flops = forward_flops(row.pairs, shape.size);
  row.prepare = [shape, options] {
    auto heads = std::make_shared<Heads>(shape, options);
    return [heads](Context& context) {
      heads->options.context = &context;
      static_cast<void>(attention(heads->query, heads->key, heads->value, heads->options));
    };
  };
  return row;
}

Case backward_row(Case row, const HeadShape& shape, double pairs, const MakeOptions& options) {
  row = described(std::move(row), shape, pairs);
  row.flops = backward_flops(row.pairs, shape.size);
  row.bytes = 2.0 * shape.bytes();  // and dO, dQ, dK, dV
  row.prepare = [shape, options] {
    auto heads = std::make_shared<Heads>(shape, options);
    auto forward = std::make_shared<AttentionResult>(
        attention(heads->query, heads->key, heads->value, heads->options));
    auto gradient =
        std::make_shared<Tensor>(Tensor::uniform(heads->output.shape(), 4, -1.0F, 1.0F));
    return [heads, forward, gradient](Context& context) {
      heads->options.context = &context;
      static_cast<void>(
          attention_backward({.query = heads->query, .key = heads->key, .value = heads->value},
                             *forward, *gradient, heads->options));
    };
  };
  return row;
}

}  // namespace headwise::bench
