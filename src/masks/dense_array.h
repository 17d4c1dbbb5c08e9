// A keep mask or bias of any broadcast shape, seen as (sequence, head, query, key) with stride 0
// on the axes it does not have.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "headwise/mask.h"
#include "masks/score_shape.h"

namespace headwise::masks {

template <typename T>
struct DenseArray {
  T* data = nullptr;
  std::int64_t sequence_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t query_stride = 0;
  std::int64_t key_stride = 0;

  // First key of a row; keys follow at key_stride.
  [[nodiscard]] T* row(const ScoreShape& shape, std::int64_t sequence, std::int64_t head,
                       std::int64_t query) const {
    const std::int64_t begin = shape.sequences[static_cast<std::size_t>(sequence)].query_begin;
    return data + sequence * sequence_stride + head * head_stride + (begin + query) * query_stride;
  }
};

// Throws ArgumentError unless every extent is 1 or that of its axis.
template <typename T>
DenseArray<T> resolve_dense(std::string_view function, std::string_view argument,
                            const TensorView<T>& values, std::optional<Axes> axes,
                            const ScoreShape& shape);

}  // namespace headwise::masks
