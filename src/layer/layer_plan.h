// Shapes of one call of a layer, checked; shared by forward and backward.
#pragma once

#include <cstdint>
#include <string_view>

#include "headwise/layer.h"
#include "ops/attention_plan.h"
#include "ops/linear.h"
#include "runtime/context_state.h"

namespace headwise::layer {

// Numbers in a row of projected heads.
struct Widths {
  explicit Widths(const AttentionConfig& config)
      : query(config.num_heads * config.key_dim),
        key(config.kv_heads() * config.key_dim),
        value(config.kv_heads() * config.value_size()),
        heads(config.num_heads * config.value_size()) {}
  std::int64_t query, key, value, heads;
};

struct LayerPlan {
  // Throws ArgumentError on behalf of `function`. Borrows what inputs and options view.
  LayerPlan(std::string_view function, const AttentionConfig& config, const AttentionInputs& given,
            const ForwardOptions& options);

  AttentionInputs inputs;
  Widths widths;
  ops::AttentionPlan attention;
  Shape output_shape;

  [[nodiscard]] std::int64_t query_rows() const {  // of all sequences
    return inputs.query.size() / inputs.query.extent(inputs.query.rank() - 1);
  }
  [[nodiscard]] std::int64_t stored_keys() const;  // rows of K and V, with the extra ones
  [[nodiscard]] double projection_flops(const AttentionConfig& config) const;

  // Heads in rows of `width` numbers, as attention sees them.
  template <typename T>
  [[nodiscard]] ops::HeadTensor<T> query_heads(T* data, std::int64_t width) const {
    return heads(data, width, attention.dims.queries, attention.dims.heads);
  }
  template <typename T>
  [[nodiscard]] ops::HeadTensor<T> key_heads(T* data, std::int64_t width) const {
    return heads(data, width, attention.dims.keys, attention.dims.kv_heads);
  }

  // Calls visit(input rows, stored rows) for the caller's keys or values and their projections,
  // which the extra keys of every sequence interrupt. One visit, or one per sequence of a packed
  // batch.
  template <typename In, typename Stored, typename Visit>
  void for_each_key_piece(const ops::Rows<In>& input, Stored* stored, std::int64_t width,
                          Visit visit) const;
  [[nodiscard]] std::int64_t key_pieces() const {
    return !attention.shape.packed || attention.shape.tail == 0 ? 1 : attention.shape.batch();
  }

 private:
  template <typename T>
  [[nodiscard]] ops::HeadTensor<T> heads(T* data, std::int64_t width, std::int64_t rows,
                                         std::int64_t count) const {
    return {data, attention.shape.packed ? 0 : rows * width, width, width / count, 1};
  }
};

template <typename In, typename Stored, typename Visit>
void LayerPlan::for_each_key_piece(const ops::Rows<In>& input, Stored* stored, std::int64_t width,
                                   Visit visit) const {
  const auto& shape = attention.shape;
  if (key_pieces() == 1 && !(shape.packed && shape.tail > 0)) {
    ops::Rows<Stored> rows = ops::dense_rows(stored, input.outer, input.inner, width);
    rows.outer_stride = (input.inner + shape.tail) * width;
    visit(input, rows);
    return;
  }
  for (const auto& sequence : shape.sequences) {
    ops::Rows<In> piece = input;
    piece.data += sequence.own_key_begin * input.inner_stride;
    piece.inner = sequence.keys;
    visit(piece, ops::dense_rows(stored + sequence.key_begin * width, 1, sequence.keys, width));
  }
}

}  // namespace headwise::layer
